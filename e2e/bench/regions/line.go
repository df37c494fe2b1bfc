package regions

import (
	"math"

	"github.com/warmgate/warmgate/e2e/bench"
)

// targets are of medians, the worst of the cells.
var targets = []bench.Target{
	{Name: "throughput_vs_local", Limit: 1.15, Least: true},
	{Name: "nine_vs_twelve", Limit: 0.97, Least: true},
	{Name: "ttft_p50_vs_central", Limit: 0.58},
	{Name: "ttft_p90_vs_central", Limit: 0.24},
	{Name: "cached_share_vs_best", Limit: -0.01, Least: true},
}

// cellLine is what one contender did in a cell.
type cellLine struct {
	Tokens bench.Spread `json:"tokens_per_s"`
	P50    bench.Spread `json:"ttft_p50_ms"`
	P90    bench.Spread `json:"ttft_p90_ms"`
	Cached bench.Spread `json:"cached_share"`
	Errors int          `json:"errors"`
	Cut    int          `json:"cut_without_token"`     // requests of all runs, at the ends of these
	Long   int          `json:"cut_without_token_20s"` // of these, those that had waited for more than 20 s
	// requests of all runs that were forwarded, by where from, where to and why
	Forwarded counts `json:"forwarded,omitempty"`
}

// line returns the last line of the output. Its comparisons are of the contender that it names as its own, and absent
// unless that was played: of each, the worst of the cells. Ratios to region-local are formed round by round; those to
// the best of several contenders are of medians. docs/benchmarks/regions.md describes them.
func (rep *report) line() bench.Line {
	s, most := rep.settings, 0.0
	cells, spreads := map[string]map[string]cellLine{}, map[string]bench.Spread{}
	rep.Each(func(cell, contender string, runs []result) {
		if cells[cell] == nil {
			cells[cell] = map[string]cellLine{}
		}
		cut := allUnanswered(runs)
		cells[cell][contender] = cellLine{
			bench.SpreadBy(runs, tokens), bench.SpreadBy(runs, ttftP50), bench.SpreadBy(runs, ttftP90),
			bench.SpreadBy(runs, cached), allFailed(runs), cut.all, cut.long, allForwarded(runs),
		}
		most = max(most, bench.SpreadBy(runs, machine).Max)
	})
	l := bench.Line{
		"bench": "regions", "own": s.Own, "rounds": s.Rounds, "workers": s.Workers, "cpu_most": most, "cells": cells,
		"errors": rep.Count(func(r *result) int { return r.Failed }),
	}
	for i := range rep.cells {
		c := &rep.cells[i]
		if c.load == skewed {
			if ratio := rep.vsLocal(l, "throughput_vs_local", c, s.Own); ratio != nil {
				spreads[c.name] = *ratio
			}
			rep.vsLocal(l, "nine_vs_twelve", c, s.Own+nine)
			rep.vsLocal(l, "ideal_vs_local", c, idealName)
		}
		rep.vsOthers(l, cells[c.key()])
	}
	if len(spreads) > 0 {
		l["throughput_vs_local_by"] = spreads // by workload
	}
	l.Judge(rep.unmet(l))
	return l
}

// vsLocal compares a contender's tokens/s with those of region-local in a cell.
func (rep *report) vsLocal(l bench.Line, name string, at *cell, contender string) *bench.Spread {
	ratio := rep.Ratio(at.key(), contender, localName, tokens)
	if ratio != nil {
		l.Worst(name, ratio.Median, false)
	}
	return ratio
}

// vsOthers compares TTFT with that of the best central contender, and the cached share with the best of all, in a cell.
// Those with fewer servers, variants and the ideal are not among them.
func (rep *report) vsOthers(l bench.Line, of map[string]cellLine) {
	ours, ok := of[rep.settings.Own]
	p50, p90, share := math.Inf(1), math.Inf(1), math.Inf(-1)
	for _, c := range rep.contenders {
		theirs, played := of[c.name]
		if !ok || !played || c.name == rep.settings.Own || c.added || c.servers < servers {
			continue
		}
		share = max(share, theirs.Cached.Median)
		if c.central {
			p50, p90 = min(p50, theirs.P50.Median), min(p90, theirs.P90.Median)
		}
	}
	if !math.IsInf(p50, 0) {
		l.Worst("ttft_p50_vs_central", ours.P50.Median/p50, true)
		l.Worst("ttft_p90_vs_central", ours.P90.Median/p90, true)
	}
	if !math.IsInf(share, 0) {
		l.Worst("cached_share_vs_best", ours.Cached.Median-share, false)
	}
}
