package lb_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// The runner-up is the cheapest of the others that are open, and it has lost by the difference of the costs; where a
// home has decided, it is another one that is open.
func TestRunnerUp(t *testing.T) {
	checkRules(t, func(rt *rapid.T) lb.Rule {
		c := drawExplained(rt)
		got := lb.Decide(&c.plan, c.loads, c.matched)
		terms := lb.AppendTerms(nil, &c.plan, c.loads, c.matched)
		if rule := lb.RuleOf(&c.plan, c.loads, c.matched, got.Index); got.Rule != rule {
			rt.Fatalf("%+v, the rule is %v", got, rule)
		}
		next, least := lb.Full, math.Inf(1)
		for i, k := range terms {
			if i != got.Index && !k.Full && k.Total < least {
				next, least = i, k.Total
			}
		}
		switch {
		case c.plan.Home.LoadFactor > 0 && got.Rule == lb.ByHome:
			if n := got.RunnerUp; n != lb.Full && (n == got.Index || terms[n].Full) || got.LostBy != 0 {
				rt.Fatalf("%+v of %+v", got, terms)
			}
		case got.Index == lb.Full || next == lb.Full:
			if got.RunnerUp != lb.Full || got.LostBy != 0 {
				rt.Fatalf("%+v, but no other is open", got)
			}
		case got.RunnerUp == lb.Full || got.RunnerUp == got.Index || terms[got.RunnerUp].Full,
			terms[got.RunnerUp].Total != least, got.LostBy != least-terms[got.Index].Total:
			rt.Fatalf("%+v, but %d is next best of %+v", got, next, terms)
		}
		return got.Rule
	})
}

// What costs no finite number is next to nothing.
func TestNoRunnerUp(t *testing.T) {
	p := lb.Plan{List: listOf(candidate(math.NaN(), 1, 1, 0), candidate(0, 1, 1, 0))}
	if got := lb.Decide(&p, make([]lb.Load, 2), nil); got.Index != 1 || got.RunnerUp != lb.Full || got.LostBy != 0 {
		t.Errorf("%+v", got)
	}
}
