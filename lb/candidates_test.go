package lb

import (
	"testing"
	"time"
)

// Lists are recomputed every maxListAge, and every refreshEvery while something changes with time.
func TestListsAreRecomputed(t *testing.T) {
	const now = time.Hour
	v := viewOf(0, 3)
	config := &ClusterConfig{Health: HealthConfig{
		ConsecutiveFailures: 1, EjectionTime: time.Minute, SlowStart: time.Minute, MaxEjectionPercent: 50,
	}}
	for name, c := range map[string]struct {
		change func(e *endpointHealth)
		want   time.Duration
	}{
		"nothing happens": {func(*endpointHealth) {}, maxListAge},
		"one has failed":  {func(e *endpointHealth) { e.rate, e.rateAt = 0.5, now }, refreshEvery},
		"one is ejected":  {func(e *endpointHealth) { e.until = now + 1 }, refreshEvery},
		"one is new": {func(e *endpointHealth) {
			e.startsSlowly, e.firstSeen = true, now-time.Second
		}, refreshEvery},
	} {
		h := NewHealth()
		h.updateView(0, v)
		c.change(h.endpoints[addrOf(1)])
		h.Candidates(now, v, config, 0)
		if got := h.list(now, v, config).validUntil; got != now+c.want {
			t.Errorf("%s: a list is valid for %v, want %v", name, got-now, c.want)
		}
	}
}

// The cost of a request in the plan's unit, with the load of each request in flight beside its tokens.
func TestCost(t *testing.T) {
	for _, c := range []struct {
		p    Plan
		c    Candidate
		l    Load
		want float64
	}{
		{Plan{}, Candidate{Slope: 1, Weight: 1}, Load{}, 1},
		{Plan{}, Candidate{Base: 3, Slope: 2, Weight: 4}, Load{Requests: 5}, 3 + 2*6/4.0},
		{Plan{Unit: Tokens, Tokens: 10}, Candidate{Slope: 1, Weight: 1}, Load{2, 1000}, 1010},
		{Plan{Unit: Tokens, Tokens: 10, PerRequest: 100}, Candidate{Slope: 1, Weight: 2}, Load{2, 1000}, 655},
		{Plan{PerRequest: 2}, Candidate{Slope: 1, Weight: 1}, Load{Requests: 4}, 5 + 10},
		{Plan{}, Candidate{Slope: 1, Weight: 2, OverSlope: 8, Capacity: 5}, Load{Requests: 4}, 2.5},
		{Plan{}, Candidate{Slope: 1, Weight: 2, OverSlope: 8, Capacity: 5}, Load{Requests: 6}, 3.5 + 8},
		{Plan{PerRequest: 2}, Candidate{Slope: 1, Weight: 1, OverSlope: 8, Capacity: 5}, Load{Requests: 4}, 15},
	} {
		if got := c.p.cost(&c.c, c.l, c.p.added()); !near(got, c.want) {
			t.Errorf("%+v at %+v: %v, want %v", c.c, c.l, got, c.want)
		}
	}
}
