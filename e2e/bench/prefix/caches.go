package prefix

import (
	"slices"

	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// caches is what the servers' caches hold or are about to: an index that is exact.
type caches struct {
	servers   []*vllmsim.Server
	chat      bool
	computing [][]*vllmsim.Prompt // by server: what it has been sent and has not answered
}

func newCaches(stage *compare.Stage, w *workload) caches {
	return caches{stage.Servers, !w.plain, make([][]*vllmsim.Prompt, len(stage.Servers))}
}

// prompt returns the prompt of a request.
func (c *caches) prompt(q *scripted.Question) *vllmsim.Prompt {
	p, err := c.servers[0].Prompt(string(q.Body), c.chat)
	if err != nil {
		panic(err) // the bench made the body
	}
	return &p
}

// cached returns how many tokens of a prompt a server has cached, or will have once it has computed what it was sent.
func (c *caches) cached(server int, p *vllmsim.Prompt) int {
	return c.servers[server].Cached(p, c.computing[server]...)
}

// compute has a server compute a prompt, until computed is called for the first time.
func (c *caches) compute(server int, p *vllmsim.Prompt) (computed func()) {
	c.computing[server] = append(c.computing[server], p)
	return func() {
		c.computing[server] = slices.DeleteFunc(c.computing[server], func(q *vllmsim.Prompt) bool { return q == p })
	}
}
