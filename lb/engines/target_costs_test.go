package engines

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/metrics"
)

// The cost of a value: an endpoint with less weight, with slow start or in another zone counts as if it had more.
func TestSetTargetCost(t *testing.T) {
	m := costModel{cfg: &Config{Order: LowestTarget}, requestLoad: 2, unit: lb.Tokens}
	counted := &engine{Sample: Sample{Counted: true, Inflight: lb.Load{Requests: 3, Tokens: 30}}}
	for _, c := range []struct {
		order Order
		e     *engine
		want  lb.Candidate
	}{
		{LowestTarget, nil, lb.Candidate{Weight: 0.5, Base: 40, Slope: 0.0025, OverSlope: 5, Capacity: 1}},
		{LowestTarget, counted, lb.Candidate{Weight: 0.5, Base: 40, Slope: 0.0025, OverSlope: 5, Capacity: 4}},
		{LowestTarget, &engine{}, lb.Candidate{Weight: 0.5, Base: 40, Slope: 0.0025, OverSlope: 5, Capacity: 1}},
		{HighestTarget, nil, lb.Candidate{Weight: 0.5, Base: 20, Slope: 0.0025, OverSlope: 5, Capacity: 1}},
	} {
		m.cfg.Order = c.order
		got := lb.Candidate{Weight: 0.5, Base: 4, ZonePenalty: 3}
		if m.setTargetCost(&got, c.e, 10, 5); !near(got.Slope, c.want.Slope) {
			t.Errorf("a slope of %v, want %v", got.Slope, c.want.Slope)
		}
		if got.Slope = c.want.Slope; got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// A value that would attract all requests counts as idle, or as eight times the median.
func TestTargetValues(t *testing.T) {
	for _, c := range []struct {
		order      Order
		have, want []float64 // NaN for none
	}{
		{LowestTarget, []float64{3, 1, 2}, []float64{3, 1, 2}},
		{LowestTarget, []float64{3, -1000, 2}, []float64{3, 0, 2}},
		{LowestTarget, []float64{-3, -1000, -2}, []float64{-3, -24, -2}},
		{LowestTarget, []float64{1000, 1, 2}, []float64{1000, 1, 2}},
		{HighestTarget, []float64{3, 1000, 2}, []float64{3, 24, 2}},
		{HighestTarget, []float64{-3, 1000, -2}, []float64{-3, 0, -2}},
		{HighestTarget, []float64{0, 1000, 0}, []float64{0, 1000, 0}},
		{HighestTarget, []float64{-1000, 1, 2}, []float64{-1000, 1, 2}},
		{LowestTarget, []float64{math.NaN(), 1}, []float64{math.NaN(), 1}},
	} {
		var samples []*engine
		known := 0
		for _, v := range c.have {
			if math.IsNaN(v) {
				samples = append(samples, nil)
				continue
			}
			known++
			samples = append(samples, &engine{Sample: sampleOf(t, fields{"gauge": v})})
		}
		m := costModel{cfg: &Config{Order: c.order}}
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if got, n := m.targetValues(0, samples); !slices.EqualFunc(got, c.want, same) || n != known {
			t.Errorf("%d of %v: %v of %d, want %v", c.order, c.have, got, n, c.want)
		}
	}
}

// A request costs as much as there is of the metric per request in flight, of which there is at least one at each
// engine; an engine without the metric has the mean.
func TestTargetCosts(t *testing.T) {
	for _, c := range []struct {
		name       string
		values     []float64
		inflight   int64
		want       []float64 // base costs
		perRequest float64
	}{
		{"few requests", []float64{6, 2}, 0, []float64{6, 2, 4}, 4},
		{"many requests", []float64{6, 2}, 8, []float64{6, 2, 4}, 0.5},
		{"nothing of it", []float64{0, 0}, 8, []float64{0, 0, 0}, 1},
		{"below zero", []float64{-6, 2}, 0, []float64{-6, 2, -2}, 4},
	} {
		g := New()
		g.targets = []string{"gauge", "counter"}
		m := costModel{cluster: g, cfg: &Config{Order: LowestTarget, Target: "gauge"}, requestLoad: 1}
		var samples []*engine
		for _, v := range c.values {
			e := &engine{Sample: sampleOf(t, fields{"gauge": v})}
			e.Inflight.Requests = c.inflight
			samples = append(samples, e)
		}
		cs := []lb.Candidate{{Weight: 1}, {Weight: 1}, {Weight: 1}}
		if n := m.addTargetCosts(cs, append(samples, nil)); n != 2 {
			t.Errorf("%s: %d engines report it", c.name, n)
		}
		for i, want := range c.want {
			if !near(cs[i].Base, want) || !near(cs[i].OverSlope, c.perRequest) {
				t.Errorf("%s: candidate %d is %+v, want a cost of %v and %v a request", c.name, i, cs[i], want,
					c.perRequest)
			}
		}
		m.cfg.Target = "another"
		if n := m.addTargetCosts(cs, append(samples, nil)); n != 0 {
			t.Errorf("%s: %d engines report a metric that is not read", c.name, n)
		}
	}
}

// Samples of this VM's adapters, and its requests for them, change the version, by which lists are found to be old.
func TestAdaptersAndVersion(t *testing.T) {
	g, sample := New(), sampleOf(t, fields{"running": 1, "adapters": 2})
	version := g.version
	changed := func(what string, want bool) {
		t.Helper()
		if got := g.version > version; got != want {
			t.Errorf("%s changes the version: %v", what, got)
		}
		version = g.version
	}
	if g.HasAdapters() {
		t.Error("adapters are known without a sample")
	}
	g.Update(time.Minute, nil, map[string]Sample{"e": sample})
	changed("a sample", true)
	if !g.HasAdapters() || len(g.adapters) != 3 {
		t.Errorf("%d adapters are known", len(g.adapters))
	}
	id := g.AddRequest("a", "e", 0)
	if changed("a first request", true); id != metrics.AdapterID("a") {
		t.Errorf("counted for %d", id)
	}
	g.AddRequest("a", "e", 0)
	changed("a second request", false)
	if got := g.AddRequest("unknown", "e", 0); got != 0 {
		t.Errorf("a request for no adapter is counted for %d", got)
	}
	changed("a request for no adapter", false)
	g.RemoveRequest(id, "e")
	changed("the end of the first", false)
	g.RemoveRequest(id, "e")
	changed("the end of the last", true)
	if len(g.adapterRequests) != 0 {
		t.Errorf("%d endpoints have requests", len(g.adapterRequests))
	}
	g.RemoveRequest(id, "e")
	changed("the end of none", false)
	g.AddRequest("a", "e", 0)
	other := g.AddRequest("b", "e", 0)
	if g.RemoveRequest(other, "e"); g.adapterRequests["e"][id] != 1 {
		t.Error("the other adapter's request is lost")
	}
	for after, want := range map[time.Duration]bool{adapterTTL: true, adapterTTL + 1: false} {
		g.adapters = map[uint64]time.Duration{7: time.Minute}
		if g.Update(time.Minute+after, nil, nil); g.HasAdapters() != want {
			t.Errorf("%v after the last sample with it an adapter is known: %v", after, !want)
		}
	}
	var many metrics.Adapters
	for i := range uint64(maxAdapters + 5) {
		many.N, many.IDs[0] = 1, i+1
		g.addAdapters(time.Hour, &many)
	}
	many.IDs[0] = 1
	if g.addAdapters(2*time.Hour, &many); len(g.adapters) != maxAdapters || g.adapters[1] != 2*time.Hour {
		t.Errorf("%d adapters are known, the first at %v", len(g.adapters), g.adapters[1])
	}
}

// The mean load of a request begins with the first one. Where tokens are not counted it does not change.
func TestMeanTokens(t *testing.T) {
	g := New()
	for _, c := range []struct {
		tokens int64
		want   float64
	}{{0, 0}, {-1, 0}, {160, 160}, {0, 160}, {320, 170}, {1, 170 - 169.0/16}} {
		if g.learnMeanTokens(c.tokens); !near(g.meanTokens, c.want) {
			t.Errorf("after %d tokens: a mean of %v, want %v", c.tokens, g.meanTokens, c.want)
		}
	}
}

// Of engines that sleep none is a candidate, unless all sleep. One without a fresh sample may be awake.
func TestSleepingEngines(t *testing.T) {
	const now = time.Hour
	for _, c := range []struct {
		name               string
		engines            string // a: awake, s: asleep, o: old sample, asleep; -: no sample
		fresh, awake, want int
	}{
		{"all awake", "aa", 2, 2, 2},
		{"one asleep", "as", 2, 1, 1},
		{"all asleep", "ss", 2, 0, 2},
		{"an old sample", "so", 1, 1, 1},
		{"no sample", "s-", 1, 1, 1},
		{"nothing known", "o-", 0, 2, 2},
	} {
		g := New()
		var cs []lb.Candidate
		for i, kind := range c.engines {
			cs = append(cs, lb.Candidate{Addr: addrOf(i), Slope: 1, Weight: 1})
			awake := map[rune]float64{'a': 1}[kind]
			e := &engine{Sample: sampleOf(t, fields{"awake": awake, "running": 1})}
			if e.FreshAt = now; kind == 'o' {
				e.FreshAt = now - time.Minute
			}
			if kind != '-' {
				g.engines[addrOf(i)] = e
			}
		}
		_, fresh, awake := g.freshSamples(now, cs, time.Second)
		if fresh != c.fresh || awake != c.awake || g.CountFresh(now, time.Second) != fresh {
			t.Errorf("%s: %d fresh, %d awake", c.name, fresh, awake)
		}
		cfg := &Config{StaleAfter: time.Second}
		if got, n := g.computeCosts(now, cs, &costKey{config: cfg}); len(got) != c.want || n != c.fresh {
			t.Errorf("%s: %d candidates, %d fresh", c.name, len(got), n)
		}
		if n := g.CountMissing(now, time.Second, metrics.Running, metrics.Waiting, metrics.KVUse); n != c.fresh {
			t.Errorf("%s: %d lack a field", c.name, n)
		}
		if n := g.CountMissing(now, time.Second, metrics.Running); n != 0 {
			t.Errorf("%s: %d lack a field that they have", c.name, n)
		}
	}
}

// Costs are computed again after lb.RefreshEvery, or with a new version.
func TestCostLists(t *testing.T) {
	g, cfg := New(), &Config{StaleAfter: time.Hour}
	g.Update(0, nil, map[string]Sample{addrOf(0): sampleOf(t, fields{"running": 1})})
	source := lb.NewList([]lb.Candidate{{Addr: addrOf(0), Slope: 1, Weight: 1}})
	computed := func(now time.Duration) bool {
		g.ApplyCosts(now, &lb.Plan{List: source}, cfg, "", false)
		l, _ := g.lists.Get(now, costKey{config: cfg, source: source.Digest()})
		return l.validUntil == now+lb.RefreshEvery
	}
	for i, c := range []struct {
		now  time.Duration
		want bool
	}{{time.Minute, true}, {time.Minute + lb.RefreshEvery - 1, false}, {time.Minute + lb.RefreshEvery, true}} {
		if got := computed(c.now); got != c.want {
			t.Errorf("query %d: computed %v", i, got)
		}
	}
	g.version++
	if !computed(time.Minute + lb.RefreshEvery + 1) {
		t.Error("a new version changes nothing")
	}
	for _, size := range []int{1, 300} {
		for i := range 400 {
			cs := make([]lb.Candidate, size)
			cs[0] = lb.Candidate{Addr: addrOf(i), Slope: 1, Weight: 1}
			g.ApplyCosts(time.Hour, &lb.Plan{List: lb.NewList(cs)}, cfg, "", false)
		}
		if n := g.lists.Len(); n < 100 || n*256 > maxCostCandidates {
			t.Errorf("%d lists of %d are kept", n, size)
		}
	}
}
