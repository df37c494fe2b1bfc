package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
	"github.com/warmgate/warmgate/lb/policy"
)

// TestZonePenalty places requests of 1,000 tokens: the gateway's own zone is preferred up to the penalty.
func TestZonePenalty(t *testing.T) {
	for _, unit := range []lb.Unit{lb.Requests, lb.Tokens} {
		for _, c := range []struct {
			own, first, second lb.Zone
			penalty            float64
			want               []int64
		}{
			{lb.Zone{Name: "a"}, lb.Zone{Name: "a"}, lb.Zone{Name: "b"}, 4.5, []int64{5, 1}},
			{lb.Zone{Name: "a"}, lb.Zone{Name: "a"}, lb.Zone{Name: "b"}, 0, []int64{3, 3}},
			{lb.Zone{Name: "c"}, lb.Zone{Name: "a"}, lb.Zone{Name: "b"}, 4.5, []int64{3, 3}},
			{lb.Zone{}, lb.Zone{Name: "a"}, lb.Zone{Name: "b"}, 4.5, []int64{3, 3}},
			{lb.Zone{Name: "a"}, lb.Zone{Name: "a"}, lb.Zone{}, 4.5, []int64{3, 3}},
			{lb.Zone{Name: "a"}, lb.Zone{Region: "r", Name: "a"}, lb.Zone{Region: "s", Name: "a"}, 4.5, []int64{3, 3}},
			{
				lb.Zone{Region: "r", Name: "a"},
				lb.Zone{Region: "r", Name: "a"},
				lb.Zone{Region: "s", Name: "a"},
				4.5,
				[]int64{5, 1},
			},
		} {
			v := healthtest.View(2)
			v.Zone, v.Endpoints[0].Zone, v.Endpoints[1].Zone = c.own, c.first, c.second
			cluster := health.ClusterConfig{ZonePenalty: c.penalty}
			p, err := policy.New("global_least_request",
				policy.Config{Unit: unit, Health: health.New(), Cluster: cluster})
			if err != nil {
				t.Fatal(err)
			}
			got := spread(t, p, v, 6)
			if !slices.Equal(got, c.want) {
				t.Errorf("unit %d, %+v: %v", unit, c, got)
			}
		}
	}
}

// spread places n requests of 1024 tokens that stay in flight, and returns how many each endpoint of the view has.
func spread(t *testing.T, p lb.Policy, v *lb.View, n int) []int64 {
	t.Helper()
	loads := make([]lb.Load, len(v.Endpoints))
	for i := range n {
		plan, reason := p.Plan(0, &lb.Request{PromptTokens: 1024, Random: uint64(i)}, v)
		if reason != lb.ReasonChosen {
			t.Fatal(reason)
		}
		k := lb.Choose(&plan, loads, nil)
		loads[k].Requests++
		loads[k].Tokens += 1024
	}
	var out []int64
	for i := range loads {
		out = append(out, loads[i].Requests)
	}
	return out
}

// Requests of very different lengths share few lists: stores cache 32 per cluster.
func TestZonePenaltyMakesFewLists(t *testing.T) {
	v := healthtest.View(2)
	v.Zone, v.Endpoints[0].Zone, v.Endpoints[1].Zone = lb.Zone{Name: "a"}, lb.Zone{Name: "a"}, lb.Zone{Name: "b"}
	p, err := policy.New("global_least_request", policy.Config{
		Unit: lb.Tokens, Health: health.New(), Cluster: health.ClusterConfig{ZonePenalty: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, lists := rand.New(rand.NewPCG(1, 2)), map[uint64]bool{}
	for range 10_000 {
		plan, reason := p.Plan(0, &lb.Request{PromptTokens: int64(1500 * math.Exp(1.2*r.NormFloat64()))}, v)
		if reason != lb.ReasonChosen {
			t.Fatal(reason)
		}
		lists[plan.Digest()] = true
	}
	if len(lists) > 8 {
		t.Errorf("%d lists", len(lists))
	}
}

// With one metric, the penalty is in units of what a request adds to it.
func TestZonePenaltyByTarget(t *testing.T) {
	w := newEngineCluster(t, 2, func(c *engines.Config) { c.Order, c.Target = engines.LowestTarget, "my_gauge" })
	w.view.Zone = lb.Zone{Name: "a"}
	w.view.Endpoints[0].Zone, w.view.Endpoints[1].Zone = w.view.Zone, lb.Zone{Name: "b"}
	for _, c := range []struct {
		gauge, penalty float64
		want           int
	}{{12, 3, 0}, {20, 3, 1}, {12, 0, 1}} {
		w.now += time.Second
		w.clusterConfig = health.ClusterConfig{ZonePenalty: c.penalty}
		w.build("endpoint_metrics")
		w.report(0, 2, fmt.Sprint("my_gauge ", c.gauge))
		w.report(1, 2, fmt.Sprint("my_gauge ", 2))
		w.update()
		if got := w.choice("", 2, 2); got != c.want {
			t.Errorf("%v in the own zone, 2 in the other, penalty %v: chose %d, want %d", c.gauge, c.penalty,
				got, c.want)
		}
	}
}
