package health_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/health/healthtest"
)

const (
	stateH, stateD = lb.Healthy, lb.Degraded
	stateU         = lb.Unhealthy
)

// reference is Envoy's rule, after its documentation and source: availability by priority, scaled to 100 if it is
// lower, assigned from the first priority on, healthy endpoints before degraded ones.
func reference(v *lb.View) (healthy, degraded []int) {
	last := 0
	for _, e := range v.Endpoints {
		last = max(last, int(e.Priority))
	}
	n := last + 1
	hosts, h, d := make([]int, n), make([]int, n), make([]int, n)
	for _, e := range v.Endpoints {
		hosts[e.Priority]++
		switch e.State {
		case lb.Healthy:
			h[e.Priority]++
		case lb.Degraded:
			d[e.Priority]++
		case lb.Draining:
			hosts[e.Priority]--
		}
	}
	sum := 0
	for p := range n {
		if hosts[p] > 0 {
			h[p], d[p] = min(100, 140*h[p]/hosts[p]), min(100, 140*d[p]/hosts[p])
		}
		sum += h[p] + d[p]
	}
	healthy, degraded = make([]int, n), make([]int, n)
	if sum == 0 {
		return healthy, degraded
	}
	sum = min(100, sum)
	left := 100
	give := func(loads, available []int) (first int) {
		first = -1
		for p := range n {
			if first < 0 && available[p] > 0 {
				first = p
			}
			loads[p] = min(left, available[p]*100/sum)
			left -= loads[p]
		}
		return first
	}
	firstHealthy := give(healthy, h)
	firstDegraded := give(degraded, d)
	if firstHealthy >= 0 {
		healthy[firstHealthy] += left
	} else {
		degraded[firstDegraded] += left
	}
	return healthy, degraded
}

// TestLoadsOfDocumentedClusters checks the examples of Envoy's documentation.
func TestLoadsOfDocumentedClusters(t *testing.T) {
	some := func(h, d, n int) (states []lb.State) {
		for i := range n {
			switch {
			case i < h:
				states = append(states, stateH)
			case i < h+d:
				states = append(states, stateD)
			default:
				states = append(states, stateU)
			}
		}
		return states
	}
	for _, tc := range []struct {
		of   [][]lb.State
		want string
	}{
		{[][]lb.State{some(100, 0, 100), some(100, 0, 100)}, "[100 0] [0 0]"},
		{[][]lb.State{some(72, 0, 100), some(100, 0, 100)}, "[100 0] [0 0]"},
		{[][]lb.State{some(71, 0, 100), some(100, 0, 100)}, "[99 1] [0 0]"},
		{[][]lb.State{some(1, 0, 4), some(4, 0, 4)}, "[35 65] [0 0]"},
		{[][]lb.State{some(0, 0, 4), some(4, 0, 4), some(4, 0, 4)}, "[0 100 0] [0 0 0]"},
		{[][]lb.State{some(25, 0, 100), some(25, 0, 100)}, "[50 50] [0 0]"},
		{[][]lb.State{some(25, 0, 100), some(25, 0, 100), some(100, 0, 100)}, "[35 35 30] [0 0 0]"},
		{[][]lb.State{some(1, 3, 4)}, "[35] [65]"},
		{[][]lb.State{some(0, 4, 4), some(2, 0, 4)}, "[0 70] [30 0]"},
		// 10, 20 and 10 % healthy, 20, 10 and 0 % degraded.
		{[][]lb.State{some(1, 2, 14), some(2, 1, 14), some(1, 0, 14)}, "[16 28 14] [28 14 0]"},
	} {
		v := healthtest.Tiered(tc.of...)
		if h, d := health.TierLoads(v); fmt.Sprint(h, " ", d) != tc.want {
			t.Errorf("got %v %v, want %s", h, d, tc.want)
		}
		if h, d := reference(v); fmt.Sprint(h, " ", d) != tc.want {
			t.Errorf("the reference has %v %v, want %s", h, d, tc.want)
		}
	}
}

func TestLoadsAsEnvoy(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	panicked := 0
	for range 20_000 {
		var priorities [][]lb.State
		for range 1 + rng.IntN(4) {
			sick := rng.IntN(6)
			var states []lb.State
			for range rng.IntN(9) {
				s := lb.Healthy
				if rng.IntN(6) < sick {
					s = lb.State(rng.IntN(5))
				}
				states = append(states, s)
			}
			priorities = append(priorities, states)
		}
		v := healthtest.Tiered(priorities...)
		if len(v.Endpoints) == 0 {
			continue
		}
		h, d := health.TierLoads(v)
		wantH, wantD := reference(v)
		if !slices.Equal(h, wantH) || !slices.Equal(d, wantD) {
			t.Fatalf("%v: got %v %v, want %v %v", priorities, h, d, wantH, wantD)
		}
		if _, reason := health.New().Candidates(0, v, healthtest.Cluster, 0); reason == lb.ReasonPanicThreshold {
			panicked++
		}
	}
	if panicked == 0 {
		t.Error("no cluster was in panic")
	}
}

// ranked returns the view with so many ranks in the place of each server, 0 for those that are not told apart.
func ranked(v *lb.View, ranks func(i int) int) *lb.View {
	out := &lb.View{Cluster: v.Cluster}
	for i, e := range v.Endpoints {
		n := ranks(i)
		if n == 0 {
			out.Endpoints = append(out.Endpoints, e)
		}
		for r := range n {
			rank := e
			rank.Addr = lb.RankAddr(e.Addr, r)
			out.Endpoints = append(out.Endpoints, rank)
		}
	}
	return out
}

// Ranks count as their server, as the gateway counts it. One that is down may show none, and the others several.
func TestLoadsOfRanks(t *testing.T) {
	upOnly := func(v *lb.View) *lb.View {
		return ranked(v, func(i int) int {
			if v.Endpoints[i].State == lb.Healthy {
				return 8
			}
			return 0
		})
	}
	v := upOnly(healthtest.Tiered([]lb.State{stateH, stateU}, []lb.State{stateH, stateH}))
	if h, d := health.TierLoads(v); fmt.Sprint(h, d) != "[70 30] [0 0]" {
		t.Errorf("one of two servers is up: %v %v", h, d)
	}
	v = upOnly(healthtest.Tiered([]lb.State{stateH, stateU, stateU, stateU, stateU}))
	if _, why := health.New().Candidates(0, v, healthtest.Cluster, 0); why != lb.ReasonPanicThreshold {
		t.Errorf("one of five servers is up: %v", why)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var priorities [][]lb.State
		for range 1 + rng.IntN(3) {
			states := make([]lb.State, rng.IntN(6))
			for i := range states {
				states[i] = lb.State(rng.IntN(5))
			}
			priorities = append(priorities, states)
		}
		of := healthtest.Tiered(priorities...)
		v := ranked(of, func(int) int { return rng.IntN(5) })
		h, d := health.TierLoads(v)
		wantH, wantD := health.TierLoads(of)
		if !slices.Equal(h, wantH) || !slices.Equal(d, wantD) {
			t.Fatalf("%v with ranks: %v %v, want %v %v", priorities, h, d, wantH, wantD)
		}
		_, why := health.New().Candidates(0, v, healthtest.Cluster, 0)
		if _, want := health.New().Candidates(0, of, healthtest.Cluster, 0); why != want {
			t.Fatalf("%v with ranks: %v, want %v", priorities, why, want)
		}
	}
}
