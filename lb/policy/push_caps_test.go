package policy

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/metrics"
)

// Every policy gives its candidates push limits with push: pending, and no other. Caps in tokens are what they are.
func TestPoliciesHavePushLimits(t *testing.T) {
	view := &lb.View{Cluster: "llm", Endpoints: []lb.Endpoint{
		{Addr: "a"},
		{Addr: "b", State: lb.Degraded},
		{Addr: "c", State: lb.Unhealthy},
		{Addr: "d", State: lb.Unhealthy},
	}}
	parser, err := metrics.New(metrics.AnyEngine)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		for _, kind := range []push.Kind{push.Blind, push.Outstanding, push.Pending} {
			g := engines.New()
			limits := push.New(g)
			p, err := New(name, Config{
				Push: kind, PushAhead: 2, Limits: limits, Engine: engines.Config{StaleAfter: 3 * time.Second},
				Cluster: health.ClusterConfig{MaxInflight: 40, MaxInflightTokens: 5000}, Health: health.New(),
				Caches: cache.NewTracker(), Engines: g, Shares: NewRequestShares(), Latencies: NewLatencies(),
				Settings: pushSettings(name),
			})
			if err != nil {
				t.Fatal(err)
			}
			s := engines.Sample{
				Counted: true, Inflight: lb.Load{Requests: 16}, At: 1, ScrapedAt: time.Hour, FreshAt: time.Hour,
			}
			parser.Parse([]byte("vllm:num_requests_running 16\nvllm:num_requests_waiting 0\n"), &s.Snapshot)
			g.Update(time.Hour, nil, map[string]engines.Sample{"a": s})
			plan, reason := p.Plan(time.Hour, &lb.Request{}, view)
			if reason != lb.ReasonChosen || len(plan.Candidates) != 2 {
				t.Fatalf("%s: %v, %+v", name, reason, plan.Candidates)
			}
			want := [2]int64{40, 40}
			if kind == push.Pending {
				want = [2]int64{26, 18}
			}
			if got := [2]int64{plan.Candidates[0].Cap, plan.Candidates[1].Cap}; got != want {
				t.Errorf("%s, %v: caps %v, want %v", name, kind, got, want)
			}
			if got := [2]int64{plan.Candidates[0].TokenCap, plan.Candidates[1].TokenCap}; got != [2]int64{5000, 5000} {
				t.Errorf("%s, %v: caps in tokens %v", name, kind, got)
			}
		}
	}
}

func pushSettings(name string) any {
	settings := Describe(name).Settings
	if settings == nil {
		return nil
	}
	s := settings()
	switch s := s.(type) {
	case *engines.Config:
		s.StaleAfter = 3 * time.Second
	case *ClusterMetricsConfig:
		s.Mode = LeastBusy
	case *BudgetConfig:
		for _, addr := range []string{"a", "b"} {
			s.Entry(addr).(*BudgetTarget).Limits.Weight = 1
		}
	}
	return s
}

// Where caps keep requests from waiting in engines, prefix_cache does not charge for it.
func TestCapsReplaceTheChargeForQueues(t *testing.T) {
	for kind, want := range map[push.Kind]float64{push.Blind: 4, push.Outstanding: 0, push.Pending: 0} {
		p, err := New("prefix_cache", Config{
			Health: health.New(), Caches: cache.NewTracker(), Engines: engines.New(), Settings: &CacheConfig{},
			Push:   kind,
			Engine: engines.Config{Weights: engines.Weights{Running: 1, Queue: 4}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.(*prefixCache).engine.Weights; got.Queue != want || got.Running != 1 {
			t.Errorf("push %v: weights %+v", kind, got)
		}
	}
}
