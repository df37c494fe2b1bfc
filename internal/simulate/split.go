package simulate

import (
	"time"

	"github.com/warmgate/warmgate/internal/simulate/engine"
)

// The pools of a layout whose prompts are computed elsewhere than answered.
const (
	computing = iota
	answering
)

// sendPrompt has the prompt of a request computed, as a request of its own for one token. The answer follows it.
func (r *run) sendPrompt(q *Request) {
	q.prompt = &Request{
		Session: q.Session, Prompt: q.Prompt, OneMessage: q.OneMessage, OneText: q.OneText, Answer: 1, Limit: 1,
		Warm: q.Warm, Class: q.Class, answer: q,
	}
	r.route(r.frontOf(computing), q.prompt)
}

// movePrompt moves the prompt of a request to the engine that answers it, but for what that has cached, and then adds
// the request there.
func (r *run) movePrompt(e *engine.Engine, q *Request) {
	q.call.Computed = true
	missing := q.prompt.call.PromptTokens() - e.Cached(q.Prompt)
	r.after(time.Duration(missing)*r.layout.Transfer, func() { r.add(q) })
}
