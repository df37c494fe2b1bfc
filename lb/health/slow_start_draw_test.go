package health_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// drawnFor returns which part of its fair share a nearly idle endpoint gets while the others are busy.
func drawnFor(h *health.Health, now time.Duration, v *lb.View, config *health.ClusterConfig, addr string) float64 {
	const draws = 1 << 12
	n := 0
	for i := range uint64(draws) {
		list, _ := h.Candidates(now, v, config, i<<(64-12))
		cs := list.Candidates
		loads := make([]lb.Load, len(cs))
		for i := range loads {
			if cs[i].Addr != addr {
				loads[i].Requests = 3
			}
			h.ObserveGrant(&lb.Plan{List: list}, i, lb.Load{Requests: 4})
		}
		if cs[lb.Choose(&lb.Plan{List: list, Random: i}, loads, nil)].Addr == addr {
			n++
		}
	}
	return float64(n) / draws * float64(len(v.Endpoints))
}

// The share that is drawn for an endpoint grows with the time since it was added or returned; before that there is
// none.
func TestSlowStart(t *testing.T) {
	v, grown := healthtest.View(8), healthtest.View(9)
	h := healthtest.New(v)
	if part := drawnFor(h, 0, v, healthtest.Cluster, v.Endpoints[0].Addr); part != 8 {
		t.Errorf("the first endpoints start slowly: %v", part)
	}
	fresh, came := grown.Endpoints[8].Addr, time.Minute
	h.Candidates(came, grown, healthtest.Cluster, 0)
	check := func(what string, since time.Duration) {
		for _, c := range []struct {
			after       time.Duration
			least, most float64
		}{
			{0, 0.04, 0.06},
			{time.Second, 0.04, 0.06},
			{6 * time.Second, 0.19, 0.22},
			{15 * time.Second, 0.49, 0.58},
			{30 * time.Second, 9, 9},
		} {
			if part := drawnFor(h, since+c.after, grown, healthtest.Cluster, fresh); part < c.least || part > c.most {
				t.Errorf("%s: %.3f of its share after %v", what, part, c.after)
			}
		}
	}
	check("new", came)
	healthtest.Fail(h, 2*time.Minute, fresh, 5)
	back := 2*time.Minute + healthtest.Config.EjectionTime
	for range 20 {
		h.Observe(back, lb.Outcome{Addr: fresh, Verdict: lb.Success}, healthtest.Cluster)
	}
	check("ejected", back)
	h.Candidates(3*time.Minute, v, healthtest.Cluster, 0)
	h.Candidates(4*time.Minute, grown, healthtest.Cluster, 0)
	check("back on the list", 4*time.Minute)
	if part := drawnFor(h, 4*time.Minute, grown, &health.ClusterConfig{}, fresh); part != 9 {
		t.Errorf("%.3f of its share under a configuration without a slow start", part)
	}
}
