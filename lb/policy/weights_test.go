package policy_test

import (
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
