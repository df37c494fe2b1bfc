package lb

import (
	"math"
	"slices"
)

// This file is how a choice is explained. No request is placed by it: see [Choose].

// Terms is what a request costs at one candidate, by the terms of [Choose], in the plan's unit:
//
//	Total = Base + Load + Over - Credit
type Terms struct {
	Base   float64 // without any load
	Load   float64 // of all requests in flight there and this one, with PerRequest and Stall, by slope and weight
	Stall  float64 // the part of Load that is of requests in flight which wait while its prompt is computed
	Over   float64 // of the requests above the engine's capacity
	Credit float64 // for the cached part of the prompt
	Total  float64 // +Inf if it is no number
	Match  float64 // the part of the prompt that the candidate is recorded to have, from 0 to 1
	Full   bool    // at a cap, so that it is not chosen whatever it costs
}

// AppendTerms appends the terms of each of the plan's candidates to dst; arguments are as those of [Choose]. With
// budgets there are costs, too, though they do not decide.
func AppendTerms(dst []Terms, p *Plan, loads []Load, matched []int) []Terms {
	added, credit := p.Added(), p.credit(loads, matched)
	for i, l := range loads[:len(p.Candidates)] {
		c := &p.Candidates[i]
		stall := p.stall(matched, i)
		t := Terms{
			Base: c.Base, Load: p.load(c, l, added, stall), Stall: c.Slope * stall * c.stalled(l) / c.Weight,
			Over: c.over(l), Credit: p.discount(credit, matched, i),
			Total: p.total(i, loads, matched, added, credit), Full: c.IsFull(l),
		}
		if matched != nil {
			t.Match = p.Prefix.Fraction(matched[i])
		}
		dst = append(dst, t)
	}
	return dst
}

// RuleOf returns what has decided for the chosen candidate, [Full] for none, with loads and matches as for [Choose].
func RuleOf(p *Plan, loads []Load, matched []int, chosen int) Rule {
	if p.HasBudget() {
		return ByBudget
	}
	home, _ := p.home(loads)
	if home != Full && home == chosen {
		return ByHome
	}
	added, credit := p.Added(), p.credit(loads, matched)
	lowest, equal := math.Inf(1), 0
	for i := range p.Candidates {
		if p.Candidates[i].IsFull(loads[i]) {
			continue
		}
		switch cost := p.total(i, loads, matched, added, credit); {
		case equal == 0 || cost < lowest:
			lowest, equal = cost, 1
		case cost == lowest:
			equal++
		}
	}
	switch {
	case equal == 0 && chosen == Full:
		return ByCaps
	case home != Full || chosen == Full || p.Candidates[chosen].IsFull(loads[chosen]),
		p.total(chosen, loads, matched, added, credit) != lowest:
		return ByStore
	case equal == 1:
		return ByCost
	case slices.Contains(p.Home.Order, uint16(chosen)):
		return ByHome
	}
	return ByTie
}
