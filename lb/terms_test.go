package lb_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// drawExplained draws a choice that may have a home and equal costs.
func drawExplained(rt *rapid.T) *choice {
	c := drawChoice(rt)
	if len(c.loads) == 0 {
		return c
	}
	if rapid.Bool().Draw(rt, "equal") {
		for i := range c.loads {
			c.plan.Candidates[i], c.loads[i] = c.plan.Candidates[0], c.loads[0]
		}
		c.matched = nil
	}
	var order []uint16
	for i := range c.loads {
		order = append(order, uint16(i))
	}
	order = rapid.Permutation(order).Draw(rt, "order")
	c.plan.Home.Order = order[:rapid.IntRange(0, len(order)).Draw(rt, "homes")]
	c.plan.Home.LoadFactor = rapid.SampledFrom([]float64{0, 0, 1.25, math.Inf(1)}).Draw(rt, "load factor")
	return c
}

// The terms add up, exactly, to costs by which Choose has chosen, and the rule says how it did.
func TestTermsExplainChoose(t *testing.T) {
	checkRules(t, func(rt *rapid.T) lb.Rule {
		c := drawExplained(rt)
		got := c.choose()
		terms := lb.AppendTerms(nil, &c.plan, c.loads, c.matched)
		rule := lb.RuleOf(&c.plan, c.loads, c.matched, got)
		without := c.plan
		without.Stall = 0
		unstalled := lb.AppendTerms(nil, &without, c.loads, c.matched)
		free, cheaper, equal := 0, 0, 0 // without the chosen one
		for i, k := range terms {
			if sum := k.Base + k.Load + k.Over - k.Credit; sum != k.Total || math.Abs(sum-c.costOf(i)) > 1e-6 {
				rt.Fatalf("candidate %d: %+v add up to %v, by the formula it is %v", i, k, sum, c.costOf(i))
			}
			if math.Abs(k.Load-unstalled[i].Load-k.Stall) > 1e-6*k.Load {
				rt.Fatalf("candidate %d: %+v, without stalls %+v", i, k, unstalled[i])
			}
			if k.Full != c.full(i) || k.Match < 0 || k.Match > 1 {
				rt.Fatalf("candidate %d: %+v", i, k)
			}
			if i == got || k.Full {
				continue
			}
			free++
			if k.Total < terms[got].Total {
				cheaper++
			} else if k.Total == terms[got].Total {
				equal++
			}
		}
		home, first := c.plan.Home.LoadFactor > 0, slices.Contains(c.plan.Home.Order, uint16(got))
		ok := map[lb.Rule]bool{
			lb.ByCaps: got == lb.Full && free == 0,
			lb.ByCost: got != lb.Full && cheaper+equal == 0,
			lb.ByTie:  cheaper == 0 && equal > 0 && !first,
			lb.ByHome: first && (home || cheaper == 0 && equal > 0),
		}
		if !ok[rule] {
			rt.Fatalf("chose %d by %v of %+v: %+v", got, rule, terms, c)
		}
		return rule
	})
}

// checkRules checks a property until each rule has decided: few random choices may leave one out.
func checkRules(t *testing.T, property func(*rapid.T) lb.Rule) {
	t.Helper()
	missing := map[lb.Rule]bool{lb.ByCost: true, lb.ByTie: true, lb.ByHome: true, lb.ByCaps: true}
	for range 100 {
		rapid.Check(t, func(rt *rapid.T) { delete(missing, property(rt)) })
		if len(missing) == 0 {
			return
		}
	}
	t.Errorf("nothing was chosen by %v: the test tests little", missing)
}

// What Choose would not have chosen by these loads, a store has chosen by others.
func TestRuleOfOtherLoads(t *testing.T) {
	p := lb.Plan{List: listOf(candidate(0, 1, 1, 0), candidate(0, 1, 1, 2), candidate(0, 1, 1, 0))}
	loads := []lb.Load{{Requests: 1}, {Requests: 2}, {Requests: 3}}
	for chosen, want := range map[int]lb.Rule{0: lb.ByCost, 1: lb.ByStore, 2: lb.ByStore, lb.Full: lb.ByStore} {
		if got := lb.RuleOf(&p, loads, nil, chosen); got != want {
			t.Errorf("candidate %d is chosen by %v, want %v", chosen, got, want)
		}
	}
	p.Home = lb.Home{Order: []uint16{2, 0}, LoadFactor: math.Inf(1)}
	for chosen, want := range map[int]lb.Rule{0: lb.ByStore, 2: lb.ByHome} {
		if got := lb.RuleOf(&p, loads, nil, chosen); got != want {
			t.Errorf("with a home candidate %d is chosen by %v, want %v", chosen, got, want)
		}
	}
}

// A cost that is no number is the highest, also in what is shown of it.
func TestTermsOfNoNumber(t *testing.T) {
	p := lb.Plan{List: listOf(candidate(math.NaN(), 1, 1, 0), candidate(0, 1, 1, 0))}
	terms := lb.AppendTerms(make([]lb.Terms, 0, 2), &p, make([]lb.Load, 2), nil)
	if !math.IsInf(terms[0].Total, 1) || terms[1].Total != 1 {
		t.Errorf("got %+v", terms)
	}
}
