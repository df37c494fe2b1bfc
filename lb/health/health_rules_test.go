package health

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

// healthOf returns a health that knows endpoints with the given failure rates, as of a minute after the beginning.
func healthOf(rates ...float64) *Health {
	h := New()
	for i, rate := range rates {
		e := &endpointHealth{rate: rate, longRate: rate, rateAt: time.Minute}
		h.current = append(h.current, e)
		h.endpoints[addrOf(i)] = e
	}
	return h
}

func addrOf(i int) string { return fmt.Sprintf("10.0.0.%d:80", i+1) }

// viewOf returns a view of n healthy endpoints, from the given number on.
func viewOf(first, n int) *lb.View {
	v := &lb.View{Cluster: "llm"}
	for i := range n {
		v.Endpoints = append(v.Endpoints, lb.Endpoint{Addr: addrOf(first + i)})
	}
	return v
}

// The lower median counts, of at most maxCompared endpoints, which are evenly spread over the list.
func TestMedianOf(t *testing.T) {
	for n := range 4 * maxCompared {
		rates := make([]float64, n)
		for i := range rates {
			rates[i] = float64((i*7+3)%n+1) / float64(n)
		}
		h := healthOf(rates...)
		step := 1
		for (n+step-1)/step > maxCompared {
			step++
		}
		for without := -1; without < min(n, 3); without++ {
			var compared []float64
			var e *endpointHealth
			for i := 0; i < n; i += step {
				if i != without {
					compared = append(compared, rates[i])
				}
			}
			if without >= 0 {
				e = h.current[without]
			}
			want := 0.0
			if slices.Sort(compared); len(compared) > 0 {
				want = compared[(len(compared)-1)/2]
			}
			if got := h.medianFailureRate(time.Minute, e); got != want && want >= 0.01 {
				t.Errorf("%d endpoints without the one at %d: %v, want %v", n, without, got, want)
			}
		}
	}
}

// A failure rate is halved every rateHalfLife, and is 0 below 1 %. It does not grow if the clock is behind.
func TestFailureRateDecays(t *testing.T) {
	for _, c := range []struct {
		rate  float64
		after time.Duration
		want  float64
	}{
		{0, 0, 0},
		{0.5, 0, 0.5},
		{0.5, rateHalfLife, 0.25},
		{0.5, 2 * rateHalfLife, 0.125},
		{0.5, -rateHalfLife, 0.5},
		{0.01, 0, 0.01},
		{0.0099, 0, 0},
		{0.02, rateHalfLife, 0.01},
		{0.0199, rateHalfLife, 0},
		{1, 100 * rateHalfLife, 0},
	} {
		e := endpointHealth{rate: c.rate, rateAt: time.Minute}
		now := time.Minute + c.after
		if got := e.failureRate(now); !near(got, c.want) || e.changesWithTime(now) != (c.want > 0) {
			t.Errorf("%+v: %v, changes with time %v", c, got, e.changesWithTime(now))
		}
	}
	for now, want := range map[time.Duration]bool{0: true, time.Minute - 1: true, time.Minute: false} {
		if e := (endpointHealth{ejection: ejection{until: time.Minute}}); e.changesWithTime(now) != want {
			t.Errorf("ejected until %v: changes with time at %v: %v", e.until, now, !want)
		}
	}
}

// The weight is the square of the success rate relative to the baseline's, within its bounds.
func TestWeightFactor(t *testing.T) {
	for _, c := range []struct{ rate, baseline, want float64 }{
		{0, 0, 1},
		{0.5, 0, 0.25},
		{0.1, 0, 0.81},
		{0.5, 0.5, 1},
		{0.75, 0.5, 0.25},
		{0.3, 0.5, 1},
		{1, 0, minWeightFactor},
		{1, 1, minWeightFactor},
		{1 - minWeightFactor/2, 1, 0.25},
		{0.9, 0, minWeightFactor},
	} {
		e := endpointHealth{rate: c.rate}
		if got := e.weightFactor(0, c.baseline); !near(got, c.want) {
			t.Errorf("failure rate %v, baseline %v: %v, want %v", c.rate, c.baseline, got, c.want)
		}
	}
}

// The baseline is the median rate, or the median of the long-term rates plus three standard deviations if that is
// higher, 1 at most.
func TestBaselineFailureRate(t *testing.T) {
	above := func(long float64) float64 { return long + 3*math.Sqrt(long*(1-long)*0.3/1.7) }
	for _, c := range []struct{ rate, long, want float64 }{
		{0, 0, 0}, {0.5, 0, 0.5}, {0, 0.1, above(0.1)}, {0.2, 0.1, above(0.1)}, {0.9, 0.1, 0.9}, {0, 0.5, 1}, {0, 1, 1},
	} {
		h := healthOf(c.rate, c.rate, 1)
		for _, e := range h.current {
			e.longRate = c.long
		}
		if got := h.baselineFailureRate(time.Minute); !near(got, c.want) {
			t.Errorf("rate %v, long-term %v: %v, want %v", c.rate, c.long, got, c.want)
		}
	}
}

func TestMaxEjections(t *testing.T) {
	for _, c := range []struct{ percent, available, total, want int }{
		{0, 8, 8, 0},
		{-1, 8, 8, 0},
		{1, 8, 8, 1},
		{50, 8, 8, 4},
		{50, 7, 8, 3},
		{50, 4, 8, 0},
		{50, 3, 8, -1},
		{100, 8, 8, 8},
		{25, 7, 7, 1},
		{30, 7, 7, 2},
	} {
		if got := maxEjections(c.percent, c.available, c.total); got != c.want {
			t.Errorf("%d %% of %d, %d available: %d, want %d", c.percent, c.total, c.available, got, c.want)
		}
	}
}

// Of ejected endpoints those with the longest ejection are excluded, as many as may be, and never all. An ejection ends
// at its time.
func TestWithoutEjected(t *testing.T) {
	const now = time.Minute
	cfg := &Config{ConsecutiveFailures: 1, EjectionTime: time.Minute}
	for _, c := range []struct {
		remaining []time.Duration // of the ejection of each endpoint
		most      int
		want      []int
	}{
		{[]time.Duration{0, 0}, 2, []int{0, 1}},
		{[]time.Duration{1, 0}, 2, []int{1}},
		{[]time.Duration{-1, 2, 0}, 2, []int{0, 2}},
		{[]time.Duration{1, 2, 3, 4}, 4, []int{0}},
		{[]time.Duration{4, 3, 2, 1}, 4, []int{3}},
		{[]time.Duration{1, 4, 2, 3}, 2, []int{0, 2}},
		{[]time.Duration{1, 4, 2, 3}, 1, []int{0, 2, 3}},
		{[]time.Duration{2, 2, 2, 2}, 2, []int{2, 3}},
		{[]time.Duration{1, 2, 0, 2}, 1, []int{0, 2, 3}},
		{[]time.Duration{1, 2, 0, 2}, 3, []int{2}},
		{[]time.Duration{1, 2, 0}, 0, []int{0, 1, 2}},
		{[]time.Duration{1, 2, 0}, -1, []int{0, 1, 2}},
		{[]time.Duration{1}, 1, []int{0}},
		{nil, 1, nil},
	} {
		h, v := New(), viewOf(0, len(c.remaining))
		var list []*lb.Endpoint
		for i, left := range c.remaining {
			from := now + left - cfg.EjectionTime
			h.endpoints[addrOf(i)] = &endpointHealth{ejection: ejection{from: from, times: 1, failures: 1}}
			list = append(list, &v.Endpoints[i])
		}
		var got []int
		for _, e := range h.withoutEjected(now, list, cfg, c.most) {
			got = append(got, slices.IndexFunc(v.Endpoints, func(o lb.Endpoint) bool { return o.Addr == e.Addr }))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v, %d at most: %v are left, want %v", c.remaining, c.most, got, c.want)
		}
	}
}

// An endpoint that is added to known ones starts slowly. The first view of a list does not, unless half of it is known.
func TestWhatStartsSlowly(t *testing.T) {
	for _, c := range []struct {
		name      string
		before    *lb.View // nil: nothing is known
		listID    uint64
		first, n  int
		newSlowly bool
	}{
		{"the first view", nil, 0, 0, 4, false},
		{"one more", viewOf(0, 4), 0, 0, 5, true},
		{"mostly others", viewOf(0, 4), 0, 3, 9, true},
		{"all others", viewOf(0, 4), 0, 4, 4, false},
		{"another list, half of it known", viewOf(0, 4), 1, 2, 4, true},
		{"another list, less than half known", viewOf(0, 4), 1, 3, 3, false},
		{"another list, nothing known", viewOf(0, 4), 1, 4, 4, false},
	} {
		h := New()
		if c.before != nil {
			h.updateView(0, c.before)
		}
		v := viewOf(c.first, c.n)
		v.ListID = c.listID
		h.updateView(time.Second, v)
		if h.endpoints[addrOf(c.first+c.n-1)].firstSeen == 0 {
			t.Fatalf("%s: nothing is new", c.name)
		}
		for addr, e := range h.endpoints {
			want := c.newSlowly && e.firstSeen > 0
			if e.startsSlowly != want {
				t.Errorf("%s: %s starts slowly: %v", c.name, addr, e.startsSlowly)
			}
		}
	}
}

// A list of endpoints that no request uses is followed for a while; then its endpoints are forgotten, but not while
// they are ejected.
func TestListsAreForgotten(t *testing.T) {
	other := viewOf(10, 2)
	other.ListID = 1
	for after, want := range map[time.Duration]int{unusedEndpointListTTL: 6, unusedEndpointListTTL + 1: 4} {
		h := New()
		h.updateView(0, other)
		h.updateView(0, viewOf(0, 4))
		h.updateView(after, viewOf(0, 4))
		if len(h.endpoints) != want || len(h.current) != want {
			t.Errorf("after %v: %d endpoints are known, %d listed, want %d", after, len(h.endpoints), len(h.current),
				want)
		}
		if h.updateView(after, other); len(h.current) != 6 {
			t.Errorf("the list is in use again: %d endpoints", len(h.current))
		}
	}
	h := New()
	h.updateView(0, other)
	v := viewOf(0, 1)
	h.updateView(0, v)
	h.updateView(unusedEndpointListTTL/2, v) // the same view again: in use
	if h.updateView(unusedEndpointListTTL+1, v); len(h.endpoints) != 1 {
		t.Errorf("%d endpoints are known although a list is unused", len(h.endpoints))
	}
	for now, want := range map[time.Duration]int{time.Minute - 1: 2, time.Minute: 1} {
		h := New()
		h.updateView(0, viewOf(0, 2))
		h.endpoints[addrOf(1)].until = time.Minute
		if h.updateView(now, viewOf(0, 1)); len(h.endpoints) != want || len(h.current) != 1 {
			t.Errorf("at %v: %d endpoints are known, want %d", now, len(h.endpoints), want)
		}
	}
}

// Endpoints of several lists are compared once each.
func TestEndpointsOfSeveralLists(t *testing.T) {
	h, subset := New(), viewOf(1, 2)
	subset.ListID = 7
	h.updateView(0, viewOf(0, 4))
	if h.updateView(0, subset); len(h.current) != 4 || len(h.endpointLists) != 2 {
		t.Errorf("%d endpoints in %d lists", len(h.current), len(h.endpointLists))
	}
}

// A cap is for weight 1, rounded, and at least one request or token.
func TestCapOfACandidate(t *testing.T) {
	for _, c := range []struct {
		inflight int64
		weight   float64
		want     int64
	}{
		{0, 2, 0},
		{-1, 2, 0},
		{1, 1, 1},
		{3, 2, 6},
		{10, 1, 10},
		{10, 0.5, 5},
		{10, 0.25, 3},
		{10, 0.24, 2},
		{1, 0.1, 1},
	} {
		cfg := ClusterConfig{MaxInflight: c.inflight}
		if got := cfg.newCandidate(&lb.Endpoint{Weight: c.weight}); got.Cap != c.want || got.Weight != c.weight {
			t.Errorf("%d of weight %v: %+v, want a cap of %d", c.inflight, c.weight, got, c.want)
		}
		cfg = ClusterConfig{MaxInflightTokens: c.inflight}
		if got := cfg.newCandidate(&lb.Endpoint{Weight: c.weight}); got.TokenCap != c.want || got.Cap != 0 {
			t.Errorf("%d tokens of weight %v: %+v, want a cap of %d", c.inflight, c.weight, got, c.want)
		}
	}
}

func TestHasWeights(t *testing.T) {
	equal, different := viewOf(0, 3), viewOf(0, 3)
	for i := range equal.Endpoints {
		equal.Endpoints[i].Weight, different.Endpoints[i].Weight = 3, 3
	}
	different.Endpoints[2].Weight = 2
	configured := map[string]float64{addrOf(0): 1}
	for _, c := range []struct {
		name    string
		v       *lb.View
		weights map[string]float64
		want    bool
	}{
		{"none", viewOf(0, 3), nil, false},
		{"no endpoints", viewOf(0, 0), nil, false},
		{"equal ones", equal, nil, false},
		{"different ones", different, nil, true},
		{"configured", equal, configured, true},
		{"a configured one that is the default", viewOf(0, 3), configured, true},
		{"configured, but none", viewOf(0, 3), map[string]float64{}, false},
	} {
		if cfg := (ClusterConfig{Weights: c.weights}); cfg.HasWeights(c.v) != c.want {
			t.Errorf("%s: %v", c.name, !c.want)
		}
	}
	for weight, want := range map[float64]float64{0: 1, -1: 1, 0.5: 0.5, 2: 2} {
		cfg := ClusterConfig{}
		if got := cfg.Weight(&lb.Endpoint{Weight: weight}); got != want {
			t.Errorf("the gateway's weight %v counts as %v", weight, got)
		}
		cfg.Weights = map[string]float64{"a": weight}
		if got := cfg.Weight(&lb.Endpoint{Addr: "a", Weight: 7}); got != want {
			t.Errorf("the configured weight %v counts as %v", weight, got)
		}
	}
}

// A request that has waited asks whether its endpoint was ejected after it was planned.
func TestEjectedSince(t *testing.T) {
	const at = 2 * time.Minute
	cfg := &Config{ConsecutiveFailures: 3, EjectionTime: 10 * time.Second}
	h := healthOf(0, 0)
	h.eject(at, h.current[0], 3, cfg)
	for _, c := range []struct {
		endpoint   int
		since, now time.Duration
		cfg        *Config
		want       bool
	}{
		{0, at - 1, at, cfg, true},
		{0, at - 1, at + 10*time.Second - 1, cfg, true},
		{0, at - 1, at + 10*time.Second, cfg, false},
		{0, at, at + 1, cfg, false},
		{0, at - 1, at, &Config{ConsecutiveFailures: 4, EjectionTime: time.Minute}, false},
		{1, 0, at, cfg, false},
		{2, 0, at, cfg, false},
	} {
		if got := h.EjectedSince(c.since, c.now, addrOf(c.endpoint), c.cfg); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
