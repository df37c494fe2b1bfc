package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/lab"
	"github.com/warmgate/warmgate/internal/live"
	"github.com/warmgate/warmgate/internal/state"
)

// telling returns the decision that tells most of those shown: the last one by cost in which a cache decided most; nil
// if there is none.
func telling(frames []live.Frame) *state.Decision {
	var best *state.Decision
	var credit float64
	for i := range frames {
		g := &frames[i].Gateways[contenders-1]
		for k := range g.Decisions {
			d := &g.Decisions[k]
			winner := winnerOf(d)
			if d.Rule == "cost" && d.Used != nil && winner >= 0 && d.Candidates[winner].Credit >= credit {
				best, credit = d, d.Candidates[winner].Credit
			}
		}
	}
	return best
}

// winnerOf returns which of the candidates that are told was chosen, -1 if none was.
func winnerOf(d *state.Decision) int {
	return slices.IndexFunc(d.Candidates, func(c state.Candidate) bool { return c.Addr == d.Endpoint })
}

// explain shows one decision, term by term.
func (d *demo) explain() {
	const most = 4
	d.mu.Lock()
	told := telling(d.frames)
	d.mu.Unlock()
	if told == nil {
		return
	}
	t := &bench.Table{Head: []string{"server", "in flight", "load", "over capacity", "credit for cache", "cost"}}
	for i, c := range told.Candidates {
		name := c.Addr
		if i == winnerOf(told) {
			name = "[" + name + "]"
		} else if i >= most {
			continue
		}
		inFlight, load := strconv.FormatInt(c.Requests, 10), number(c.Base+c.Load)
		t.Add(name, inFlight, load, number(c.Over), number(c.Credit), number(c.Cost))
	}
	d.screen.line("\nOne decision of %s, explained. The page shows all of them, on a click.\n", told.Policy)
	lab.Check(t.Write(d.screen.out))
	d.screen.line("\nThe cheapest was chosen. Its server then found %d of the prompt's %d tokens in its cache, and "+
		"the first token came after %d ms.", told.Used.Cached, told.Used.Prompt, told.TTFTMS)
}

// number renders a term of a cost.
func number(x float64) string { return fmt.Sprintf("%.4g", x) }
