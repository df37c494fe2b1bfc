package lb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Two rules of one cluster have different lists of endpoints: the history of one list's endpoints survives the other's
// views.
func TestViewsOfSeveralLists(t *testing.T) {
	a := &lb.View{Cluster: "llm", ListID: 1, Endpoints: viewOf(8).Endpoints[:4]}
	b := &lb.View{Cluster: "llm", ListID: 2, Endpoints: viewOf(8).Endpoints[4:]}
	h, bad, now := lb.NewHealth(), a.Endpoints[0].Addr, time.Duration(0)
	for range 3000 {
		now += 5 * time.Millisecond
		h.Candidates(now, a, clusterConfig, 0)
		h.Observe(now, lb.Outcome{Addr: bad, Verdict: lb.Failure}, clusterConfig)
		h.Candidates(now, b, clusterConfig, 0)
		h.Observe(now, lb.Outcome{Addr: b.Endpoints[0].Addr, Verdict: lb.Success}, clusterConfig)
	}
	if h.Ejections() == 0 {
		t.Error("3,000 failures in a row eject no endpoint")
	}
	for _, v := range []*lb.View{a, b} {
		for addr, w := range weights(t, h, now, v) {
			if addr != bad && w != 1 {
				t.Errorf("%s has weight %v", addr, w)
			}
		}
	}
	// An endpoint that leaves its list is forgotten, although the other list stays.
	left := &lb.View{Cluster: "llm", ListID: 1, Endpoints: a.Endpoints[:3]}
	last := a.Endpoints[3].Addr
	now += time.Hour
	drawnFor(h, now, left, clusterConfig, last) // with the same load at the others
	h.Candidates(now, b, clusterConfig, 0)
	now += time.Minute
	if part := drawnFor(h, now, a, clusterConfig, last); part > 0.5 {
		t.Errorf("an endpoint that returns gets %v of its share at once", part)
	}
}

// Only endpoints that are added to a list start slowly, also if the list gets another id by that; those that another
// list names first do not.
func TestFirstViewsOfLists(t *testing.T) {
	list := func(source uint64, from, to int) *lb.View {
		return &lb.View{Cluster: "llm", ListID: source, Endpoints: viewOf(12).Endpoints[from:to]}
	}
	for _, c := range []struct {
		name string
		next *lb.View
		slow bool
	}{
		{"another list", list(2, 6, 10), false},
		{"another list that has one of the first", list(2, 3, 7), false},
		{"the list with more", list(1, 0, 8), true},
		{"a list that is the first with one more", list(2, 0, 5), true},
		{"the list with all others", list(1, 4, 8), false},
	} {
		h := lb.NewHealth()
		h.Candidates(0, list(1, 0, 4), clusterConfig, 0)
		list, _ := h.Candidates(time.Minute, c.next, clusterConfig, 1<<64-1)
		cs := list.Candidates
		if slow := cs[len(cs)-1].Base > 0; slow != c.slow {
			t.Errorf("%s: its last endpoint starts slowly: %v", c.name, slow)
		}
	}
}

// An ejection is in effect for the configurations whose number of failures is reached, for as long as each one
// configures.
func TestEjectionsByConfig(t *testing.T) {
	v := viewOf(4)
	bad := v.Endpoints[0].Addr
	with := func(failures int, lasts time.Duration) *lb.ClusterConfig {
		clusterConfig := &lb.ClusterConfig{Health: healthConfig}
		clusterConfig.Health.ConsecutiveFailures, clusterConfig.Health.EjectionTime = failures, lasts
		return clusterConfig
	}
	never, hasty := with(0, time.Minute), with(2, 20*time.Second)
	patient, short := with(50, 20*time.Second), with(2, 5*time.Second)
	all := []*lb.ClusterConfig{never, hasty, patient, short}
	h := newHealth(v)
	want := func(what string, now time.Duration, out ...bool) {
		t.Helper()
		for i, clusterConfig := range all {
			list, _ := h.Candidates(now, v, clusterConfig, 0)
			cs := list.Candidates
			if (len(cs) == 3) != out[i] {
				t.Errorf("%s: %d candidates under configuration %d", what, len(cs), i)
			}
		}
	}
	observe := func(n int, now time.Duration, under *lb.ClusterConfig) {
		for range n {
			h.Observe(now, lb.Outcome{Addr: bad, Verdict: lb.Failure}, under)
		}
	}
	now := time.Minute
	observe(2, now, hasty)
	want("two failures", now, false, true, false, true)
	if got, _ := h.Export(now, nil); len(got) > 0 {
		other := newHealth(v)
		other.Import(now, got)
		if list, _ := other.Candidates(now, v, never, 0); len(list.Candidates) != 4 {
			t.Error("another VM ejects under a configuration that never does")
		}
	}
	want("six seconds later", now+6*time.Second, false, true, false, false)
	observe(60, now+6*time.Second, patient)
	want("many failures", now+6*time.Second, false, true, true, true)
	want("a minute later", now+time.Minute, false, false, false, false)
}

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
	v, engines, h := viewOf(100), lb.NewEngines(), lb.NewHealth()
	caches, shares := lb.NewCacheTracker(), lb.NewRequestShares()
	samples := map[string]lb.EngineSample{}
	for _, e := range v.Endpoints {
		at := time.Minute
		samples[e.Addr] = lb.EngineSample{
			Snapshot: snapshot(t, running(1), waiting(0)), At: at, ScrapedAt: at,
			FreshAt: at,
		}
	}
	engines.Update(time.Minute, nil, samples)
	cache := lb.CacheConfig{TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
	var policies []lb.Policy
	for i := range n {
		c := lb.Config{
			Cluster: lb.ClusterConfig{Health: healthConfig, MaxInflight: 1 + int64(i)},
			Health:  h, Caches: caches, Engines: engines, Shares: shares,
			Engine: lb.EngineConfig{StaleAfter: time.Hour, Weights: lb.EngineWeights{Running: 1 + float64(i)}},
		}
		if alike {
			c.Cluster.MaxInflight, c.Engine.Weights.Running = 1, 1
		}
		c.Settings = settingsOf(name, cache, c.Engine)
		p, err := lb.New(name, c)
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

// While endpoints fail, and while they are close to their share, nearly every request has a new list. Few of them are
// retained.
func TestFailuresFillNoMemory(t *testing.T) {
	const n, requests, most, alone = 1000, 3000, 250_000, 33_000
	for _, name := range policiesTested {
		v, engines, h, shares := viewOf(n), lb.NewEngines(), lb.NewHealth(), lb.NewRequestShares()
		samples := map[string]lb.EngineSample{}
		load := snapshot(t, running(1), waiting(0))
		for i, e := range v.Endpoints {
			samples[e.Addr] = lb.EngineSample{Snapshot: load, At: time.Hour, ScrapedAt: time.Hour, FreshAt: time.Hour}
			v.Endpoints[i].Priority = uint8(i % 2)
			if i%8 < 6 {
				v.Endpoints[i].State = lb.Degraded
			}
		}
		engines.Update(time.Hour, nil, samples)
		cache := lb.CacheConfig{TTL: time.Hour, IndexMemory: lb.IndexMemory{Local: 1 << 20}}
		engine := lb.EngineConfig{StaleAfter: time.Hour, RateLimit: 0.002, Weights: lb.EngineWeights{Running: 1}}
		p, err := lb.New(name, lb.Config{
			Cluster: lb.ClusterConfig{Health: healthConfig}, Health: h, Caches: lb.NewCacheTracker(), Engines: engines,
			Shares: shares, Engine: engine, Settings: settingsOf(name, cache, engine),
		})
		if err != nil {
			t.Fatal(err)
		}
		lists, own := map[uint64]bool{}, 0
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
			own = max(own, lb.DerivedCandidates(p))
			at := plan.Candidates[i*37%len(plan.Candidates)].Addr
			shares.Count(now, at)
			verdict := lb.Success
			if i%10 == 0 {
				verdict = lb.Overload
			}
			p.Observe(now, lb.Outcome{Addr: at, Verdict: verdict})
		}
		if kept := lb.CachedCandidates(h, engines); kept > most || own > alone || len(lists) < requests/20 {
			t.Errorf("%s: %d candidates are cached, and %d by the policy alone, of %d lists of %d; want "+
				"%d and %d at most",
				name, kept, own, len(lists), n, most, alone)
		}
	}
}
