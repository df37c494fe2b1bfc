package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/cache"
	"github.com/warmgate/warmgate/lb/engines"
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
	v, g, h := healthtest.View(100), engines.New(), health.New()
	caches, shares := cache.NewTracker(), policy.NewRequestShares()
	samples := map[string]engines.Sample{}
	for _, e := range v.Endpoints {
		at := time.Minute
		samples[e.Addr] = engines.Sample{
			Snapshot: snapshot(t, running(1), waiting(0)), At: at, ScrapedAt: at,
			FreshAt: at,
		}
	}
	g.Update(time.Minute, nil, samples)
	caching := policy.CacheConfig{TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
	var policies []lb.Policy
	for i := range n {
		c := policy.Config{
			Cluster: health.ClusterConfig{Health: healthtest.Config, MaxInflight: 1 + int64(i)},
			Health:  h, Caches: caches, Engines: g, Shares: shares,
			Engine: engines.Config{StaleAfter: time.Hour, Weights: engines.Weights{Running: 1 + float64(i)}},
		}
		if alike {
			c.Cluster.MaxInflight, c.Engine.Weights.Running = 1, 1
		}
		c.Settings = settingsOf(name, caching, c.Engine)
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

// While endpoints fail, and while they are close to their share, nearly every request has a new list; none changes in
// place.
func TestListsDoNotChange(t *testing.T) {
	const n, requests = 1000, 3000
	for _, name := range policiesTested {
		v, g, h, shares := healthtest.View(n), engines.New(), health.New(), policy.NewRequestShares()
		samples := map[string]engines.Sample{}
		load := snapshot(t, running(1), waiting(0))
		for i, e := range v.Endpoints {
			samples[e.Addr] = engines.Sample{Snapshot: load, At: time.Hour, ScrapedAt: time.Hour, FreshAt: time.Hour}
			v.Endpoints[i].Priority = uint8(i % 2)
			if i%8 < 6 {
				v.Endpoints[i].State = lb.Degraded
			}
		}
		g.Update(time.Hour, nil, samples)
		caching := policy.CacheConfig{TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
		engine := engines.Config{StaleAfter: time.Hour, RateLimit: 0.002, Weights: engines.Weights{Running: 1}}
		p, err := policy.New(name, policy.Config{
			Cluster: health.ClusterConfig{Health: healthtest.Config}, Health: h,
			Caches: cache.NewTracker(), Engines: g,
			Shares: shares, Engine: engine, Settings: settingsOf(name, caching, engine),
		})
		if err != nil {
			t.Fatal(err)
		}
		lists := map[uint64]bool{}
		for i := range requests {
			now := time.Hour + time.Duration(i)*time.Millisecond
			plan, reason := p.Plan(now, &lb.Request{}, v)
			if reason != lb.ReasonChosen {
				t.Fatal(reason)
			}
			if now := (lb.List{Candidates: plan.Candidates}); now.Digest() != plan.Digest() {
				t.Fatalf("%s: a list has changed in place", name)
			}
			lists[plan.Digest()] = true
			at := plan.Candidates[i*37%len(plan.Candidates)].Addr
			shares.Count(now, at)
			verdict := lb.Success
			if i%10 == 0 {
				verdict = lb.Overload
			}
			p.Observe(now, lb.Outcome{Addr: at, Verdict: verdict})
		}
		if len(lists) < requests/20 {
			t.Errorf("%s: %d lists of %d requests: the test tests little", name, len(lists), requests)
		}
	}
}
