package health_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

// The candidates are the same, so that a store in Redis makes the same choices; caps are by the configured weights.
func TestCandidatesDoNotDependOnTheScale(t *testing.T) {
	capped := &health.ClusterConfig{Health: healthtest.Config, MaxInflight: 10}
	candidates := func(k float64) []lb.Candidate {
		v := healthtest.View(4)
		for i := range v.Endpoints {
			v.Endpoints[i].Weight = k * float64(1+i*i) * 0.7
		}
		list, _ := health.New().Candidates(0, v, capped, 0)
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
		v := healthtest.View(4)
		for i := range v.Endpoints {
			v.Endpoints[i].Weight = c.weights[i]
		}
		h := healthtest.New(v)
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
