package push

import (
	"math"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
)

// targets are of medians.
var targets = []bench.Target{
	{Name: "tokens_vs_blind", Limit: 1.25, Least: true},
	{Name: "ttft_p90_vs_blind", Limit: 1. / 5},
	{Name: "tokens_vs_outstanding", Limit: 1.2, Least: true},
	{Name: "trees24_cached", Limit: 0.92, Least: true},
	{Name: "trees24_ttft_p99_vs_best", Limit: 1},
}

// line returns the last line of the output: figures of push: pending, or of the contender that is named as own, medians
// of the rounds. Ratios are formed round by round, but for the one to the best of the others, which is of medians, and
// those of the limits. docs/benchmarks/push.md describes them.
func (rep *report) line() bench.Line {
	s := rep.settings
	l := bench.Line{
		"bench": "push", "own": s.Own, "rounds": s.Rounds, "workers": s.Workers,
		"errors": rep.Count(func(r *result) int { return r.Failed }),
	}
	l.Figure("tokens_vs_blind", rep.Ratio("trees2", s.Own, blindName, tokens))
	l.Figure("ttft_p90_vs_blind", rep.Ratio("trees2", s.Own, blindName, ttftP90))
	if best := rep.bestCap("trees2"); best != nil {
		l["best_cap"] = best.cap
		l.Figure("tokens_vs_outstanding", rep.Ratio("trees2", s.Own, best.Name(), tokens))
	}
	l.Figure("trees24_cached", rep.Spread("trees24", s.Own, cached))
	if ttft := rep.Spread("trees24", s.Own, ttftP99); ttft != nil {
		l.Spread("trees24_ttft_p99_ms", ttft)
		if best, p99 := rep.lowest("trees24", ttftP99); best != "" {
			l["trees24_best"], l["trees24_ttft_p99_vs_best"] = best, ttft.Median/p99
		}
	}
	l.Spread("shifts2_tokens_vs_blind", rep.Ratio("shifts2", s.Own, blindName, tokens))
	if best := rep.bestCap("shifts2"); best != nil {
		l.Spread("shifts2_tokens_vs_outstanding", rep.Ratio("shifts2", s.Own, best.Name(), tokens))
	}
	l.Spread("crowd24_tokens_vs_blind", rep.Ratio("crowd24", s.Own, blindName, tokens))
	l.Spread("crowd24_ttft_p90_vs_blind", rep.Ratio("crowd24", s.Own, blindName, ttftP90))
	rep.limits(l, "limit_tokens_vs_blind", "trees2", simulatedBlind, tokens, true)
	rep.limits(l, "limit_tokens_vs_outstanding", "trees2", simulatedOutstanding, tokens, true)
	rep.limits(l, "limit_ttft_p90_vs_blind", "trees2", simulatedBlind, ttftP90, false)
	rep.limits(l, "limit_trees24_cached", "trees24", "", cached, true)
	l["target_met"] = l.Meets(targets)
	return l
}

// limits adds the best median of a figure over the limits, the highest or the lowest, over that of what it is compared
// with, if anything; nothing if these were not played.
func (rep *report) limits(l bench.Line, name, load, against string, of func(*result) float64, most bool) {
	over := 1.0
	if against != "" {
		over = bench.SpreadBy(rep.Of(load, against), of).Median
	}
	for _, c := range rep.contenders {
		if m := rep.Median(load, c.Name(), of); strings.HasPrefix(c.Name(), limitPrefix) && m != nil && over != 0 {
			l.Worst(name, *m/over, most)
		}
	}
}

// bestCap returns push: outstanding with the cap that has the most tokens a second in the median, or nil if none was
// played.
func (rep *report) bestCap(load string) (best *contender) {
	most := 0.0
	for i := range rep.contenders {
		c := &rep.contenders[i]
		if rate := bench.SpreadBy(rep.Of(load, c.Name()), tokens).Median; c.cap > 0 && rate > most {
			best, most = c, rate
		}
	}
	return best
}

// lowest returns which of the others has the lowest median of a figure, and that; "" if there are none.
func (rep *report) lowest(load string, of func(*result) float64) (name string, figure float64) {
	figure = math.Inf(1)
	for _, c := range rep.contenders {
		if c.Name() == rep.settings.Own || c.Added {
			continue
		}
		if m := rep.Median(load, c.Name(), of); m != nil && *m < figure {
			name, figure = c.Name(), *m
		}
	}
	return name, figure
}
