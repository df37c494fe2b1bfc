package lb_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// choice is what Choose decides on.
type choice struct {
	plan    lb.Plan
	loads   []lb.Load
	matched []int
}

func (c *choice) choose() int { return lb.Choose(&c.plan, c.loads, c.matched) }

// drawChoice draws a plan with loads and matches. Costs are not rounded: ties are rare, except between candidates that
// are equal.
func drawChoice(rt *rapid.T) *choice {
	number := func(label string, most int) int { return rapid.IntRange(0, most).Draw(rt, label) }
	c := &choice{plan: lb.Plan{
		Unit: lb.Unit(number("unit", 1)), Tokens: int64(number("tokens", 5000)),
		PerRequest: int64(number("per request", 300)), Stall: float64(number("stall", 300)) / 3,
		Random: rapid.Uint64().Draw(rt, "random"),
	}}
	blocks := number("blocks", 4)
	for i := range blocks {
		c.plan.Prefix.Blocks = append(c.plan.Prefix.Blocks, prompt.Block{Key: uint64(i), End: 500 * (i + 1)})
	}
	if blocks > 0 {
		c.plan.Prefix.Bytes = 500*blocks + number("rest", 500)
		c.plan.Prefix.Credit = float64(number("credit", 4000))
		c.plan.Prefix.CreditGrowth = float64(number("growth", 8)) / 4
	}
	for range number("candidates", 8) {
		c.plan.Candidates = append(c.plan.Candidates, lb.Candidate{
			Base: float64(number("base", 3000)) / 7, Slope: float64(number("slope", 30)) / 11,
			Weight: float64(1+number("weight", 40)) / 13, Cap: int64(number("cap", 6)),
			TokenCap: int64(number("cap in tokens", 12)) * 500,
			Capacity: float64(number("capacity", 50)) / 9, OverSlope: float64(number("over", 30)) / 17,
		})
		c.loads = append(c.loads, lb.Load{
			Requests: int64(number("requests", 5)), Tokens: int64(number("in flight", 5000)),
		})
		if blocks > 0 {
			c.matched = append(c.matched, number("matched", blocks))
		}
	}
	return c
}

// full reports whether a candidate is at a cap.
func (c *choice) full(i int) bool {
	limit, tokens := c.plan.Candidates[i].Cap, c.plan.Candidates[i].TokenCap
	return limit > 0 && c.loads[i].Requests >= limit || tokens > 0 && c.loads[i].Tokens >= tokens
}

// costOf returns the cost of a candidate by the formula in the documentation of Choose.
func (c *choice) costOf(i int) float64 {
	k, l := c.plan.Candidates[i], c.loads[i]
	load := float64(l.Requests + 1)
	if c.plan.Unit == lb.Tokens {
		load = float64(l.Tokens + c.plan.Tokens)
	}
	stalled, missing := min(float64(l.Requests), 32), 1.0
	if k.OverSlope > 0 {
		stalled = min(stalled, k.Capacity)
	}
	if c.matched != nil && c.matched[i] > 0 {
		missing -= float64(c.plan.Prefix.Blocks[c.matched[i]-1].End) / float64(c.plan.Prefix.Bytes)
	}
	load += c.plan.Stall * missing * stalled
	cost := k.Base + (k.Slope*(load+float64(c.plan.PerRequest*(l.Requests+1)))+
		k.OverSlope*max(0, float64(l.Requests+1)-k.Capacity))/k.Weight
	if c.matched == nil || c.matched[i] == 0 {
		return cost
	}
	fewest := math.Inf(1)
	for j := range c.loads {
		if !c.full(j) {
			fewest = min(fewest, float64(c.loads[j].Requests))
		}
	}
	part := float64(c.plan.Prefix.Blocks[c.matched[i]-1].End) / float64(c.plan.Prefix.Bytes)
	return cost - c.plan.Prefix.Credit*min(1+c.plan.Prefix.CreditGrowth*fewest, 16)*part
}

// The chosen candidate costs no more than any other below its cap, by the formula of the documentation.
func TestChooseByTheFormula(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		got := c.choose()
		for i := range c.loads {
			if got != lb.Full && !c.full(i) && c.costOf(i) < c.costOf(got)-1e-6 {
				rt.Fatalf("chose %d at %v, and %d costs %v: %+v", got, c.costOf(got), i, c.costOf(i), c)
			}
		}
	})
}

// permuted returns the choice with its candidates in another order.
func (c *choice) permuted(order []int) *choice {
	p := &choice{plan: c.plan}
	p.plan.Candidates = nil
	for _, i := range order {
		p.plan.Candidates = append(p.plan.Candidates, c.plan.Candidates[i])
		p.loads = append(p.loads, c.loads[i])
		if c.matched != nil {
			p.matched = append(p.matched, c.matched[i])
		}
	}
	return p
}

// The order of the candidates decides nothing but ties: an equal candidate is chosen in another order.
func TestChoosePermutes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		order := make([]int, len(c.loads))
		for i := range order {
			order[i] = i
		}
		order = rapid.Permutation(order).Draw(rt, "order")
		p := c.permuted(order)
		was, is := c.choose(), p.choose()
		if (was == lb.Full) != (is == lb.Full) {
			rt.Fatalf("chose %d, in another order %d", was, is)
		}
		if was == lb.Full || order[is] == was {
			return
		}
		alone := c.permuted([]int{was, order[is]}) // of these two alone it must be a tie
		alone.plan.Prefix.CreditGrowth = 0
		if c.plan.Prefix.CreditGrowth > 0 {
			return // the gain depends on the others
		}
		first, second := *alone, *alone
		first.plan.Random, second.plan.Random = 0, 1
		if first.choose() == second.choose() {
			rt.Fatalf("chose %d, in another order %d, which costs otherwise: %+v", was, order[is], c)
		}
	})
}

// The unit of costs has no effect: all of them can be multiplied by a power of two.
func TestChooseScales(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		by := math.Ldexp(1, rapid.IntRange(-20, 20).Draw(rt, "exponent"))
		s := *c
		s.plan.Candidates = slices.Clone(c.plan.Candidates)
		s.plan.Prefix.Credit *= by
		for i := range s.plan.Candidates {
			k := &s.plan.Candidates[i]
			k.Base, k.Slope, k.OverSlope = k.Base*by, k.Slope*by, k.OverSlope*by
		}
		if was, is := c.choose(), s.choose(); was != is {
			rt.Fatalf("chose %d, with all costs times %v %d", was, by, is)
		}
	})
}

// More load on another candidate, or a lower cap there, never takes the request away from the chosen one; and no
// candidate gets a request because its load grew.
func TestChooseIsMonotonicInLoad(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		c.plan.Prefix.CreditGrowth = 0 // with it, load anywhere raises the credit
		was := c.choose()
		if was == lb.Full || len(c.loads) < 2 {
			return
		}
		other := rapid.IntRange(0, len(c.loads)-1).Draw(rt, "other")
		more := lb.Load{
			Requests: int64(rapid.IntRange(0, 4).Draw(rt, "requests")),
			Tokens:   int64(rapid.IntRange(0, 9000).Draw(rt, "tokens")),
		}
		c.loads[other].Requests += more.Requests
		c.loads[other].Tokens += more.Tokens
		is := c.choose()
		if other != was && is == other {
			rt.Fatalf("%d was chosen, and with more load on %d that: %+v", was, other, c)
		}
		if other != was && is != was {
			// A tie may be drawn otherwise: then the two cost the same.
			pair := c.permuted([]int{was, is})
			first, second := *pair, *pair
			first.plan.Random, second.plan.Random = 0, 1
			if first.choose() == second.choose() {
				rt.Fatalf("%d was chosen, and with more load on %d %d: %+v", was, other, is, c)
			}
		}
	})
}

// No candidate is chosen at its cap, and one is chosen as long as any is below.
func TestChooseKeepsCaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		free := 0
		for i := range c.loads {
			if !c.full(i) {
				free++
			}
		}
		switch got := c.choose(); {
		case (got == lb.Full) != (free == 0):
			rt.Fatalf("chose %d with %d candidates below their cap", got, free)
		case got != lb.Full && c.full(got):
			rt.Fatalf("chose %d, which is full", got)
		}
	})
}

// A candidate at its cap is as if it were not there, whatever it costs and whatever it has in its cache.
func TestChooseIgnoresFullCandidates(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		var free []int
		for i := range c.loads {
			if !c.full(i) {
				free = append(free, i)
			}
		}
		was := c.choose()
		if is := c.permuted(free).choose(); is != lb.Full && free[is] != was || is == lb.Full && was != lb.Full {
			rt.Fatalf("chose %d, without the full ones %d of %v", was, is, free)
		}
	})
}

// A longer match at the chosen candidate keeps the request there.
func TestChooseIsMonotonicInMatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		was := c.choose()
		if was == lb.Full || c.matched == nil || c.plan.Prefix.Credit == 0 {
			return
		}
		before := c.matched[was]
		c.matched[was] = rapid.IntRange(before, len(c.plan.Prefix.Blocks)).Draw(rt, "more")
		if is := c.choose(); is != was && c.matched[was] > before {
			rt.Fatalf("%d was chosen, and with a longer match there %d", was, is)
		}
	})
}

// Without a match anywhere, or with one of the same length everywhere, the prompt has no effect, but what it stalls
// others by is less.
func TestChooseWithoutADifferenceInMatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		if c.matched == nil {
			return
		}
		none := *c
		none.matched = nil
		length := rapid.IntRange(0, len(c.plan.Prefix.Blocks)).Draw(rt, "length")
		for i := range c.matched {
			c.matched[i] = length
		}
		none.plan.Stall *= 1 - c.plan.Prefix.Fraction(length)
		was, is := none.choose(), c.choose()
		if was != is && c.plan.Candidates[was] != c.plan.Candidates[is] {
			// Subtracting the credit rounds: what differs in the last digit only may be a tie then.
			if length == 0 {
				rt.Fatalf("chose %d without matches, %d with matches of no block", was, is)
			}
			pair := none.permuted([]int{was, is})
			for i := range pair.plan.Candidates {
				pair.plan.Candidates[i].Base += 1e-6 * float64(1-2*i)
			}
			if pair.choose() == 0 {
				rt.Fatalf("chose %d without matches, %d with equal ones", was, is)
			}
		}
	})
}

// Equal candidates get the same share of the random draws, exactly.
func TestChooseDrawsEvenly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		n := rapid.IntRange(1, 6).Draw(rt, "equal")
		first := lb.Candidate{Slope: 1, Weight: 1}
		c.plan.Candidates, c.loads, c.matched = nil, nil, nil
		for i := range n {
			c.plan.Candidates = append(c.plan.Candidates, first)
			c.loads = append(c.loads, lb.Load{Requests: 2, Tokens: 70})
			if i%2 == 0 { // and one in front of each second one that costs more
				c.plan.Candidates = append(c.plan.Candidates, lb.Candidate{Base: 1, Slope: 1, Weight: 1})
				c.loads = append(c.loads, lb.Load{Requests: 2, Tokens: 70})
			}
		}
		count := map[int]int{}
		start := uint64(rapid.Uint32Range(0, 1<<31).Draw(rt, "start"))
		for i := range uint64(3 * n) {
			c.plan.Random = start + i
			count[c.choose()]++
		}
		for i, k := range c.plan.Candidates {
			want := 3
			if k.Base > 0 {
				want = 0
			}
			if count[i] != want {
				rt.Fatalf("candidate %d of %d equal ones got %d draws of %d", i, n, count[i], 3*n)
			}
		}
	})
}

// The tokens that a request adds fall with its match, from all of them to those that are not saved, and stay within
// what a lease can count.
func TestAddedTokens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := drawChoice(rt)
		c.plan.Tokens = rapid.SampledFrom([]int64{-5, 0, 1, 1000, lb.MaxTokens, lb.MaxTokens + 1, math.MaxInt64}).
			Draw(rt, "tokens")
		c.plan.Prefix.Tokens = rapid.Int64Range(0, 1<<33).Draw(rt, "saved")
		last := c.plan.AddedTokens(0)
		if want := min(max(c.plan.Tokens, 0), lb.MaxTokens); last != want {
			rt.Fatalf("adds %d tokens without a match, want %d", last, want)
		}
		for n := range c.plan.Prefix.Blocks {
			added := c.plan.AddedTokens(n + 1)
			if added > last || added < 0 {
				rt.Fatalf("adds %d tokens with %d blocks, %d with one less", added, n+1, last)
			}
			last = added
		}
	})
}
