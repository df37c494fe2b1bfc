package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/lb/prompt"
)

const (
	stateH, stateD = lb.Healthy, lb.Degraded
	stateU         = lb.Unhealthy
)

// oneOfFour is a priority that gets 35 % of the requests.
var oneOfFour = []lb.State{stateH, stateU, stateU, stateU}

// tieredPolicies returns the three policies for a cluster with idle engines and the same configuration.
func tieredPolicies(t *testing.T, v *lb.View, clusterConfig health.ClusterConfig) map[string]lb.Policy {
	t.Helper()
	engine := engines.Config{
		StaleAfter: time.Minute, Weights: engines.Weights{Running: 1, Queue: 4, KVCache: 1, LoRA: 16},
	}
	out := map[string]lb.Policy{}
	for _, name := range []string{"global_least_request", "prefix_cache", "endpoint_metrics"} {
		g, samples := engines.New(), map[string]engines.Sample{}
		for _, e := range v.Endpoints {
			samples[e.Addr] = engines.Sample{
				Snapshot: snapshot(t, running(0), waiting(0), kvUse(0)), At: 1, ScrapedAt: 1,
				FreshAt: 1,
			}
		}
		g.Update(1, []string{"my_gauge", "my_counter"}, samples)
		p, err := policy.New(name, policy.Config{
			Cluster: clusterConfig, Health: health.New(), Caches: cache.NewTracker(), Engines: g,
			Shares: policy.NewRequestShares(),
			Engine: engine, Settings: settingsOf(name, policy.CacheConfig{Credit: 2, TTL: time.Hour}, engine),
		})
		if err != nil {
			t.Fatal(err)
		}
		out[name] = p
	}
	return out
}

// near compares a number of draws with a binomial distribution, 4.5 standard deviations to either side.
func near(t *testing.T, what string, got, n int, share float64) {
	t.Helper()
	if off, most := math.Abs(float64(got)-float64(n)*share), 4.5*math.Sqrt(float64(n)*share*(1-share)); off > most {
		t.Errorf("%s: %d of %d, want %.0f±%.0f", what, got, n, float64(n)*share, most)
	}
}

// TestRequestsFollowTheLoads draws requests to idle endpoints under each policy: priorities get their loads, the
// endpoints of a priority equal shares, with as many lists as there are tiers.
func TestRequestsFollowTheLoads(t *testing.T) {
	v := healthtest.Tiered(oneOfFour, []lb.State{stateH, stateH, stateH, stateH}, []lb.State{stateH})
	for name, p := range tieredPolicies(t, v, health.ClusterConfig{Health: healthtest.Config}) {
		t.Run(name, func(t *testing.T) {
			const n = 10_000
			rng := rand.New(rand.NewPCG(3, 4))
			at, lists := map[string]int{}, map[uint64]bool{}
			for i := range n {
				blocks := []prompt.Block{{Key: uint64(i), End: 400}}
				r := &lb.Request{PromptTokens: 100, Random: rng.Uint64(), Blocks: blocks, PromptBytes: 400}
				plan, reason := p.Plan(time.Duration(i)*time.Millisecond, r, v)
				if reason != lb.ReasonChosen {
					t.Fatal(reason)
				}
				lists[plan.Digest()] = true
				at[plan.Candidates[lb.Choose(&plan, make([]lb.Load, len(plan.Candidates)), nil)].Addr]++
			}
			near(t, "P0", at[v.Endpoints[0].Addr], n, 0.35)
			for i := range 4 {
				near(t, fmt.Sprint("endpoint ", i, " of P1"), at[v.Endpoints[4+i].Addr], n, 0.65/4)
			}
			if got := at[v.Endpoints[8].Addr]; got > 0 {
				t.Errorf("P2 gets %d of %d", got, n)
			}
			if len(lists) != 2 {
				t.Errorf("%d lists for 2 tiers", len(lists))
			}
		})
	}
}

// TestFullTierSpillsOver fills a cluster up to its caps: no request is refused while an endpoint of a tier with load is
// below its cap, and a tier takes more than its share only when the other is full.
func TestFullTierSpillsOver(t *testing.T) {
	v := healthtest.Tiered(oneOfFour, []lb.State{stateH, stateH, stateH, stateH}, []lb.State{stateH, stateH})
	for name, p := range tieredPolicies(t, v, health.ClusterConfig{Health: healthtest.Config, MaxInflight: 10}) {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			loads := map[string]lb.Load{}
			for i := range 51 {
				plan, _ := p.Plan(time.Second, &lb.Request{PromptTokens: 100_000, Random: rng.Uint64()}, v)
				var list []lb.Load
				for _, c := range plan.Candidates {
					list = append(list, loads[c.Addr])
				}
				k := lb.Choose(&plan, list, nil)
				if (k == lb.Full) != (i == 50) {
					t.Fatalf("request %d: candidate %d of %+v, loads %v", i, k, plan.Candidates, list)
				}
				if k == lb.Full {
					continue
				}
				c := plan.Candidates[k]
				l := loads[c.Addr]
				loads[c.Addr] = lb.Load{Requests: l.Requests + 1, Tokens: l.Tokens + 100_000}
				for j, o := range plan.Candidates {
					if c.Base >= 1<<32 && o.Base < 1<<32 && list[j].Requests < 10 {
						t.Fatalf("request %d went to another tier although %s has %d", i, o.Addr, list[j].Requests)
					}
				}
			}
		})
	}
}

// TestPanicByPriority has one priority in panic and another one that is not: Envoy decides about the share of the
// first.
func TestPanicByPriority(t *testing.T) {
	const n = 10_000
	count := func(v *lb.View, threshold int) (left int, reason lb.Reason) {
		clusterConfig := &health.ClusterConfig{Health: healthtest.Config}
		clusterConfig.Health.PanicThreshold = threshold
		h, rng := health.New(), rand.New(rand.NewPCG(7, 8))
		for range n {
			if _, r := h.Candidates(0, v, clusterConfig, rng.Uint64()); r != lb.ReasonChosen {
				left, reason = left+1, r
			}
		}
		return left, reason
	}
	v := healthtest.Tiered([]lb.State{stateH, stateU, stateU, stateU, stateU}, []lb.State{stateH, stateU})
	got, reason := count(v, 50)
	near(t, "left to the gateway", got, n, 0.29)
	if reason != lb.ReasonPanicThreshold {
		t.Error(reason)
	}
	if got, _ := count(v, 0); got > 0 {
		t.Errorf("without a threshold %d are left", got)
	}
	if got, _ := count(v, 100); got != n {
		t.Errorf("%d of %d are left where all are in panic", got, n)
	}
	// While the others can take all requests there is no panic, whatever the threshold.
	if got, _ := count(healthtest.Tiered(oneOfFour, []lb.State{stateH, stateH}), 100); got > 0 {
		t.Errorf("%d are left although there is capacity for all", got)
	}
	// Endpoints that the plugin has ejected fail over like those of the gateway, without panic.
	v = healthtest.Tiered([]lb.State{stateH, stateH, stateH, stateH}, []lb.State{stateH, stateH, stateH, stateH})
	h, at := healthtest.New(v), 0
	for i := range 3 {
		healthtest.Eject(h, 0, v, v.Endpoints[i].Addr)
	}
	p, err := policy.New("global_least_request", policy.Config{Cluster: *healthtest.Cluster, Health: h})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 10))
	for range n {
		plan, reason := p.Plan(time.Second, &lb.Request{Random: rng.Uint64()}, v)
		if reason != lb.ReasonChosen {
			t.Fatal(reason)
		}
		if plan.Candidates[lb.Choose(&plan, make([]lb.Load, len(plan.Candidates)), nil)].Addr == v.Endpoints[3].Addr {
			at++
		}
	}
	near(t, "3 of 4 ejected here: the fourth", at, n, 0.35)
}

// A single priority of healthy endpoints is planned with the unmodified list.
func TestOneTierCostsNothing(t *testing.T) {
	v, h := healthtest.View(4), health.New()
	p, err := policy.New("global_least_request", policy.Config{Cluster: *healthtest.Cluster, Health: h})
	if err != nil {
		t.Fatal(err)
	}
	plan, _ := p.Plan(0, &lb.Request{}, v)
	r := &lb.Request{Random: 1 << 40}
	if n := testing.AllocsPerRun(100, func() {
		if again, _ := p.Plan(0, r, v); again.Digest() != plan.Digest() {
			t.Error("another list")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
