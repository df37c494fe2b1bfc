package lb_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// boundedHome is the rule of [lb.Home] by its documentation, with its bounds times scale.
func boundedHome(p *lb.Plan, loads []lb.Load, full func(int) bool, scale float64) int {
	of := func(i uint16) float64 {
		if p.Unit == lb.Tokens {
			return float64(loads[i].Tokens)
		}
		return float64(loads[i].Requests)
	}
	total, weights := 1.0, 0.0
	if p.Unit == lb.Tokens {
		total = float64(p.Tokens)
	}
	for _, i := range p.Home.Order {
		total, weights = total+of(i), weights+p.Candidates[i].Weight
	}
	for _, i := range p.Home.Order {
		if !full(int(i)) && (of(i) < p.Home.LoadFactor*total*p.Candidates[i].Weight/weights*scale ||
			float64(loads[i].Requests) < float64(p.Home.Free)*p.Candidates[i].Weight) {
			return int(i)
		}
	}
	return lb.Full
}

// A request is placed by the documented rule; and somewhere as long as one candidate is not full.
func TestChooseByHome(t *testing.T) {
	all, placed := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		all++
		c := drawChoice(rt)
		if len(c.loads) == 0 {
			return
		}
		for i := range c.loads {
			c.plan.Home.Order = append(c.plan.Home.Order, uint16(i))
		}
		c.plan.Home.Order = rapid.Permutation(c.plan.Home.Order).Draw(rt, "order")
		plain := c.choose()
		c.plan.Home.LoadFactor = rapid.Float64Range(1.01, 3).Draw(rt, "factor")
		c.plan.Home.Free = int64(rapid.IntRange(0, 4).Draw(rt, "free"))
		got, want := c.choose(), boundedHome(&c.plan, c.loads, c.full, 1-1e-12)
		rounded := boundedHome(&c.plan, c.loads, c.full, 1+1e-12) != want // a load is its bound, but for rounding
		switch {
		case (got == lb.Full) != (plain == lb.Full):
			rt.Fatalf("chose %d, without a home %d", got, plain)
		case want != lb.Full && got != want && !rounded:
			rt.Fatalf("chose %d, want %d: %+v", got, want, c)
		}
		if want != lb.Full {
			placed++
		}
	})
	if placed < all/5 {
		t.Errorf("%d of %d requests were placed by a home: the test tests little", placed, all)
	}
}

// Without a load factor the order settles ties, and nothing else.
func TestHomeSettlesTies(t *testing.T) {
	p := lb.Plan{Random: 7, Home: lb.Home{Order: []uint16{2, 0, 1}}, List: lb.NewList([]lb.Candidate{
		candidate(0, 1, 1, 0), candidate(0, 1, 1, 0), candidate(0, 1, 1, 2), candidate(0, 1, 1, 0),
	})}
	for _, tc := range []struct {
		loads []int64
		want  int
	}{
		{[]int64{0, 0, 0, 0}, 2},
		{[]int64{1, 1, 1, 1}, 2},
		{[]int64{0, 0, 1, 0}, 0},
		{[]int64{1, 0, 1, 0}, 1},
		{[]int64{5, 5, 2, 5}, 0}, // the home is full
		{[]int64{5, 5, 5, 4}, 3}, // it costs less, and is not in the order
	} {
		loads := make([]lb.Load, 4)
		for i, n := range tc.loads {
			loads[i].Requests = n
		}
		if got := lb.Choose(&p, loads, nil); got != tc.want {
			t.Errorf("loads %v: chose %d, want %d", tc.loads, got, tc.want)
		}
	}
}

// While a candidate has few requests, it is not too busy, however idle the others are.
func TestFreeRequests(t *testing.T) {
	p := lb.Plan{
		Home: lb.Home{Order: []uint16{1, 0, 2}, LoadFactor: 1.25, Free: 3},
		List: lb.NewList([]lb.Candidate{candidate(0, 1, 1, 0), candidate(0, 1, 1, 0), candidate(0, 1, 1, 0)}),
	}
	loads := make([]lb.Load, 3)
	var got []int
	for range 9 {
		i := lb.Choose(&p, loads, nil)
		loads[i].Requests++
		got = append(got, i)
	}
	if want := []int{1, 1, 1, 0, 0, 0, 2, 1, 0}; !slices.Equal(got, want) { // the last two by their part of the load
		t.Errorf("chose %v, want %v", got, want)
	}
}
