package main

import (
	"math/rand/v2"
	"sync"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/vllmsim"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// exact chooses as prefix_cache does, with a fixed credit and nothing learned, but it knows what prefix_cache must
// estimate: which blocks each server has in its cache at this moment, how many tokens a prompt is, how long the answer
// becomes, and all that is under way. It may be used by several goroutines.
type exact struct {
	servers []*vllmsim.Server
	chat    bool
	credit  float64

	mu         sync.Mutex
	candidates []lb.Candidate
	loads      []lb.Load
	ties       *rand.Rand
}

func newExact(stage *compare.Stage, w *workload, credit float64) *exact {
	e := &exact{
		servers: stage.Servers, chat: !w.plain, credit: credit,
		loads: make([]lb.Load, len(stage.Servers)), ties: random(1, exactName),
	}
	for _, s := range stage.Servers {
		e.candidates = append(e.candidates, lb.Candidate{Addr: s.Addr(), Slope: 1, Weight: 1})
	}
	return e
}

// choose returns the server for a request and counts it as under way until done is called.
func (e *exact) choose(q *question) (server int, done func()) {
	p, err := e.servers[0].Prompt(string(q.body), e.chat)
	if err != nil {
		panic(err) // the bench made the body
	}
	cached := make([]int, len(e.servers))
	e.mu.Lock()
	defer e.mu.Unlock()
	plan := lb.Plan{
		Candidates: e.candidates, Unit: lb.Tokens, Tokens: int64(p.Tokens + q.answer), Tie: e.ties.Uint64(),
		Prefix: lb.Prefix{
			Blocks: ends(p.Tokens), Length: p.Tokens, Tokens: int64(p.Tokens), Credit: e.credit * float64(p.Tokens),
		},
	}
	for i, s := range e.servers {
		cached[i] = s.Cached(&p)
	}
	server = lb.Choose(&plan, e.loads, cached)
	work := plan.Work(cached[server])
	e.add(server, 1, work)
	return server, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.add(server, -1, -work)
	}
}

func (e *exact) add(server int, requests, tokens int64) {
	e.loads[server].Requests += requests
	e.loads[server].Tokens += tokens
}

// ends returns the blocks of a prompt for which each token is one: what servers report is in tokens.
func ends(tokens int) []prompt.Block {
	blocks := make([]prompt.Block, tokens)
	for i := range blocks {
		blocks[i].End = i + 1
	}
	return blocks
}
