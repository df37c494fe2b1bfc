package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/push"
)

// Whatever the policy, a request that is limited to some endpoints has no other candidates: also where no engine has
// told anything of its load.
func TestSubset(t *testing.T) {
	view := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{
		{Addr: "a"}, {Addr: "b"}, {Addr: "c", State: lb.Unhealthy}, {Addr: "d"},
	}}
	for _, name := range Names() {
		engines := engines.New()
		p, err := New(name, Config{
			Unit: lb.Tokens, Push: push.Pending, Limits: push.New(engines), Health: health.New(),
			Caches: cache.NewTracker(), Engines: engines, Shares: NewRequestShares(), Latencies: NewLatencies(),
			Settings: pushSettings(name),
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // then the lists are known
			for _, c := range []struct{ hint, want []string }{
				{[]string{"a"}, []string{"a"}},
				{[]string{"b"}, []string{"b"}},
				{[]string{"x", "b", "a", "c"}, []string{"a", "b"}},
				{[]string{"c"}, nil},
				{[]string{"x"}, nil},
				{[]string{}, nil},
			} {
				r := lb.Request{PromptTokens: 100, OutputTokens: 20, Session: 7, Subset: []uint64{}}
				for _, addr := range c.hint {
					r.Subset = append(r.Subset, lb.EndpointHash(addr))
				}
				slices.Sort(r.Subset)
				for _, r.Idle = range []bool{false, true} {
					plan, reason := p.Plan(time.Hour, &r, view)
					var got []string
					for _, c := range plan.Candidates {
						got = append(got, c.Addr)
					}
					want := lb.ReasonChosen
					if c.want == nil {
						want = lb.ReasonNoHealthyEndpoint
					}
					if !slices.Equal(got, c.want) || reason != want {
						t.Errorf("%s, idle %t: of %v there are %v: %v", name, r.Idle, c.hint, got, reason)
					}
				}
			}
		}
	}
}
