package lb

import (
	"testing"
	"time"
)

// Every policy places a request that computes nothing by requests in flight: without tokens, caps, budget or prompt,
// and also where no engine has told anything of its load.
func TestPoliciesPlaceIdleRequests(t *testing.T) {
	view := &View{Cluster: "llm", Endpoints: []Endpoint{{Addr: "a"}, {Addr: "b", State: Degraded}, {Addr: "c"}}}
	for _, name := range Names() {
		for _, unit := range []Unit{Requests, Tokens} {
			engines := NewEngines()
			p, err := New(name, Config{
				Unit: unit, Push: Pending, Limits: NewPushLimits(engines),
				Cluster: ClusterConfig{MaxInflight: 4, MaxInflightTokens: 5000}, Health: NewHealth(),
				Caches: NewCacheTracker(), Engines: engines, Shares: NewRequestShares(), Latencies: NewLatencies(),
				Settings: pushSettings(name),
			})
			if err != nil {
				t.Fatal(err)
			}
			r := &Request{PromptTokens: 100, OutputTokens: 20, Idle: true, Session: 7}
			plan, reason := p.Plan(time.Hour, r, view)
			if reason != ReasonChosen || plan.Unit != Requests || plan.Tokens != 0 || plan.HasBudget() ||
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
