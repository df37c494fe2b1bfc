package lb_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

var policiesTested = []string{"global_least_request", "prefix_cache", "endpoint_metrics"}

// scaled returns where requests went in a minute in which one endpoint is added and one fails, with all weights
// multiplied by k.
func scaled(t *testing.T, policy string, weights []float64, k float64) []string {
	r := newRamp(t, policy, 1, 0.6*float64(len(weights)), 7)
	r.weight = func(i int) float64 { return k * weights[i] }
	r.ends = func(addr string) lb.Verdict {
		if addr == r.view.Endpoints[0].Addr && r.now > time.Minute+40*time.Second && r.rand.IntN(3) == 0 {
			return lb.Overload
		}
		return lb.Success
	}
	r.resize(len(weights) - 1)
	r.run(20 * time.Second)
	r.resize(len(weights))
	r.run(40 * time.Second)
	var out []string
	for _, p := range r.sent {
		out = append(out, p.addr)
	}
	return out
}

// Weights are relative: multiplying all of them changes no choice.
func TestScaleOfWeights(t *testing.T) {
	for _, policy := range policiesTested {
		for _, weights := range [][]float64{{1, 1, 1, 1, 1}, {1, 2, 3, 4, 0.7}} {
			want := scaled(t, policy, weights, 1)
			for _, k := range []float64{100, 0.1, 1.3, 1e-4} {
				got := scaled(t, policy, weights, k)
				n := 0
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						n++
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s: %v times weights of %v: %d of %d requests went elsewhere", policy, k, weights,
						n, len(want))
				}
			}
		}
	}
}

// The candidates are the same, so that a store in Redis makes the same choices; caps are by the configured weights.
func TestCandidatesDoNotDependOnTheScale(t *testing.T) {
	capped := &lb.ClusterConfig{Health: healthConfig, MaxInflight: 10}
	candidates := func(k float64) []lb.Candidate {
		v := viewOf(4)
		for i := range v.Endpoints {
			v.Endpoints[i].Weight = k * float64(1+i*i) * 0.7
		}
		list, _ := lb.NewHealth().Candidates(0, v, capped, 0)
		cs := list.Candidates
		for i, c := range cs {
			if want := max(1, math.Round(10*v.Endpoints[i].Weight)); float64(c.Cap) != want {
				t.Errorf("weight %v: cap %d, want %v", v.Endpoints[i].Weight, c.Cap, want)
			}
		}
		cs = slices.Clone(cs)
		for i := range cs {
			cs[i].Cap = 0
		}
		return cs
	}
	want := candidates(1)
	for k := 1e-6; k < 1e6; k *= 1.7 {
		if got := candidates(k); !slices.Equal(got, want) {
			t.Fatalf("%v times the weights: %+v, want %+v", k, got, want)
		}
	}
}

// Normalized weights hardly change when an endpoint is added or removed: one of many alike, or a small one.
func TestWeightsAreSteady(t *testing.T) {
	for _, c := range []struct {
		weights []float64
		without int
		most    float64
	}{
		{[]float64{8, 8, 1, 1}, 0, 1.15},
		{[]float64{8, 8, 1, 1}, 2, 1.15},
		{[]float64{1, 1, 1, 0.01}, 3, 1.02},
		{[]float64{3, 2, 1, 2}, 1, 1.15},
	} {
		v := viewOf(4)
		for i := range v.Endpoints {
			v.Endpoints[i].Weight = c.weights[i]
		}
		h := newHealth(v)
		before := weights(t, h, 0, v)
		gone := &lb.View{
			Cluster: v.Cluster, Endpoints: slices.Delete(slices.Clone(v.Endpoints), c.without, c.without+1),
		}
		for addr, w := range weights(t, h, time.Hour, gone) {
			if times := max(w/before[addr], before[addr]/w); times > c.most {
				t.Errorf("%v without %d: the weight of %s changes from %v to %v", c.weights, c.without, addr,
					before[addr], w)
			}
		}
	}
}

// When all endpoints are overloaded, for some or most of the time, prompts still go where they are cached.
func TestOverloadKeepsMatches(t *testing.T) {
	const runs = 5
	matches := func(share float64) (cached float64) {
		for seed := range uint64(runs) {
			r := newRamp(t, "prefix_cache", 8, 0.7, seed)
			r.ends = func(string) lb.Verdict {
				if r.rand.Float64() < share {
					return lb.Overload
				}
				return lb.Success
			}
			r.run(time.Minute)
			cached += r.matched / r.prompts / runs
		}
		return cached
	}
	normal := matches(0)
	shares := []float64{0.05, 0.3, 0.02, 0.1, 0.2, 0.5, 0.8}
	if testing.Short() {
		shares = shares[:2]
	}
	for _, share := range shares {
		got := matches(share)
		t.Logf("%.2f overloaded: %.3f of prompts are cached, without %.3f", share, got, normal)
		if got < 0.93*normal {
			t.Errorf("%.2f overloaded: %.3f of prompts are cached, without %.3f", share, got, normal)
		}
	}
}
