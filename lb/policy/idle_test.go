package policy

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/push"
)

// Every policy places a request that computes nothing by requests in flight: without tokens, caps, budget or prompt,
// and also where no engine has told anything of its load.
func TestPoliciesPlaceIdleRequests(t *testing.T) {
	view := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{
		{Addr: "a"}, {Addr: "b", State: lb.Degraded}, {Addr: "c"},
	}}
	for _, name := range Names() {
		for _, unit := range []lb.Unit{lb.Requests, lb.Tokens} {
			engines := engines.New()
			p, err := New(name, Config{
				Unit: unit, Push: push.Pending, Limits: push.New(engines),
				Cluster: health.ClusterConfig{MaxInflight: 4, MaxInflightTokens: 5000}, Health: health.New(),
				Caches: cache.NewTracker(), Engines: engines, Shares: NewRequestShares(), Latencies: NewLatencies(),
				Settings: pushSettings(name),
			})
			if err != nil {
				t.Fatal(err)
			}
			r := &lb.Request{PromptTokens: 100, OutputTokens: 20, Idle: true, Session: 7}
			plan, reason := p.Plan(time.Hour, r, view)
			if reason != lb.ReasonChosen || plan.Unit != lb.Requests || plan.Tokens != 0 || plan.HasBudget() ||
				plan.Prefix.NeedsLookup() || plan.AddedTokens(0) != 0 {
				t.Errorf("%s, %v: %v, %+v", name, unit, reason, plan)
			}
			for _, c := range plan.Candidates {
				if c.Cap != 0 || c.TokenCap != 0 || c.OverSlope != 0 {
					t.Errorf("%s, %v: a candidate is %+v", name, unit, c)
				}
			}
			again, _ := p.Plan(time.Hour, r, view)
			if len(plan.Candidates) == 0 || again.Digest() != plan.Digest() {
				t.Errorf("%s, %v: the same candidates are another list", name, unit)
			}
		}
	}
}
