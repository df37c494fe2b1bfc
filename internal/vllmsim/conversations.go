package vllmsim

import (
	"fmt"
	"slices"
	"sync"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// conversations are those of the Responses API up to an answer, for requests that follow it up.
type conversations struct {
	mu    sync.Mutex
	held  map[string][]byte // by the answer's id
	order []string          // the ids, the oldest first
}

// maxHeld is how many answers are held: the latest.
const maxHeld = 1000

// recall puts what is held of an answer, and of all before it, into the prompt of a request that follows it up. Tools
// and instructions are the request's own. It reports whether the answer is there.
func (c *conversations) recall(r *completionRequest) bool {
	if r.previous == "" {
		return true
	}
	c.mu.Lock()
	history, ok := c.held[r.previous]
	c.mu.Unlock()
	r.prompt = slices.Insert(r.prompt, min(r.lead, len(r.prompt)), history...)
	r.promptLen = enginesim.TokensOf(len(r.prompt))
	return ok
}

// hold keeps the conversation up to the end of an answer.
func (c *conversations) hold(a *answer) {
	text := append(enginesim.AppendText(slices.Clone(a.req.prompt[a.req.lead:]), a.seed, a.tokens), '\n')
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == nil {
		c.held = map[string][]byte{}
	}
	id := fmt.Sprintf("resp_%x", a.id)
	c.held[id], c.order = text, append(c.order, id)
	if len(c.order) > maxHeld {
		delete(c.held, c.order[0])
		c.order = c.order[1:]
	}
}

func (c *conversations) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.held)
	c.order = nil
}
