package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/policy"
)

// However many configurations a cluster has, each one's list is cached: nothing is computed per request.
func TestManyConfigurationsAreAtHand(t *testing.T) {
	for _, n := range []int{1, 8, 9, 17, 64} {
		for _, alike := range []bool{false, true} {
			for _, name := range policiesTested {
				t.Run(fmt.Sprintf("%s/%d/%v", name, n, alike), func(t *testing.T) { atHand(t, name, n, alike) })
			}
		}
	}
}

// atHand measures the cost of requests under n configurations in turn.
func atHand(t *testing.T, name string, n int, alike bool) {
	v, engines, h := healthtest.View(100), lb.NewEngines(), health.New()
	caches, shares := lb.NewCacheTracker(), policy.NewRequestShares()
	samples := map[string]lb.EngineSample{}
	for _, e := range v.Endpoints {
		at := time.Minute
		samples[e.Addr] = lb.EngineSample{
			Snapshot: snapshot(t, running(1), waiting(0)), At: at, ScrapedAt: at,
			FreshAt: at,
		}
	}
	engines.Update(time.Minute, nil, samples)
	cache := policy.CacheConfig{TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
	var policies []lb.Policy
	for i := range n {
		c := policy.Config{
			Cluster: health.ClusterConfig{Health: healthtest.Config, MaxInflight: 1 + int64(i)},
			Health:  h, Caches: caches, Engines: engines, Shares: shares,
			Engine: lb.EngineConfig{StaleAfter: time.Hour, Weights: lb.EngineWeights{Running: 1 + float64(i)}},
		}
		if alike {
			c.Cluster.MaxInflight, c.Engine.Weights.Running = 1, 1
		}
		c.Settings = settingsOf(name, cache, c.Engine)
		p, err := policy.New(name, c)
		if err != nil {
			t.Fatal(err)
		}
		policies = append(policies, p)
	}
	lists, request := map[uint64]bool{}, &lb.Request{}
	each := func() {
		for _, p := range policies {
			plan, reason := p.Plan(time.Minute, request, v)
			if reason != lb.ReasonChosen {
				t.Fatal(reason)
			}
			lists[plan.Digest()] = true
		}
	}
	each()
	want := n
	if alike {
		want = 1
	}
	made := testing.AllocsPerRun(10, each)
	if len(lists) != want || made != 0 {
		t.Errorf("%d lists, want %d; %.0f allocations for %d requests", len(lists), want, made, n)
	}
}
