package placement

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/lb"
)

// growing is a policy whose view has more servers from a time on.
type growing struct {
	*warm
	all    []lb.Endpoint
	at     time.Duration
	counts []int // requests since then, by server
}

func (p *growing) Choose(now time.Duration, r *Request, place func(time.Duration, int)) {
	if now >= p.at {
		p.view = &lb.View{Cluster: "llm", Endpoints: p.all}
	}
	p.warm.Choose(now, r, func(placed time.Duration, server int) {
		if now >= p.at {
			p.counts[server]++
		}
		place(placed, server)
	})
}

// Last lets warm learn from servers that are in its view.
func (p *growing) Last(now time.Duration, r *Request) {
	view := p.view
	p.view = &lb.View{Cluster: "llm", Endpoints: p.all}
	p.warm.Last(now, r)
	p.view = view
}

// Servers that are added while all others have requests that wait take their part of the conversations, although those
// have their prompts elsewhere.
func TestAddedServersAreUsed(t *testing.T) {
	const servers, users, turns = 8, 120, 40
	cases := []struct{ before, question, answer int }{{7, 100, 100}, {4, 300, 30}, {4, 100, 100}}
	if testing.Short() {
		cases = cases[:1]
	}
	for _, tc := range cases {
		w := Workload{
			Name: "grow", Servers: servers, Server: traffic.Engine(8, 256<<10), Full: users,
			Scripts: func(seed uint64) []traffic.Script {
				return conversations(seed, users, 0, 0, turns, tc.question, tc.answer)
			},
		}
		var p *growing
		w.Prepare(1).Run(1, func(seed uint64, all []*enginesim.Engine) Policy {
			inner := Warm("prefix_cache", DefaultCredit)(seed, all).(*warm)
			p = &growing{warm: inner, all: inner.view.Endpoints, at: 3 * time.Second, counts: make([]int, len(all))}
			inner.view = &lb.View{Cluster: "llm", Endpoints: p.all[:tc.before]}
			return p
		})
		busiest := slices.Max(p.counts)
		if busiest == 0 {
			t.Errorf("%+v: no requests came after servers were added", tc)
		}
		for i, n := range p.counts[tc.before:] {
			if 3*n < busiest {
				t.Errorf("%+v: server %d of those that were added got %d requests of %v", tc, i, n, p.counts)
			}
		}
	}
}
