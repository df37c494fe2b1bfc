package overload

import (
	"maps"

	"github.com/warmgate/warmgate/e2e/bench"
)

// targets are of medians; none of the critical class may be lost in any round.
var targets = []bench.Target{
	{Name: "goodput_2x", Limit: 0.95, Least: true},
	{Name: "goodput_10x", Limit: 0.90, Least: true},
	{Name: "refusal_p99_ms", Limit: 5},
}

// line returns the last line of the output, with the figures of the contender that is named as own, and of all.
// docs/benchmarks/overload.md describes them. The targets are of the loads, of runs that were on time.
func (rep *report) line() bench.Line {
	s, all := rep.settings, map[string]bench.Line{}
	l := bench.Line{
		"bench": "overload", "own": s.Own, "capacity": rep.capacity, "rounds": s.Rounds, "workers": s.Workers,
		"contenders": all, "late_p99_ms": bench.MS(rep.latest()), "target_met": false,
	}
	maps.Copy(l, rep.found)
	for _, c := range rep.contenders {
		all[c.name] = rep.figures(c.name)
	}
	if all[s.Own] == nil {
		return l
	}
	maps.Copy(l, all[s.Own])
	l.Spread("best_goodput", bench.SpreadIfAny(rep.best(s.Own)))
	l.Figure("goodput_2x", rep.ofBest(s.Own, 2))
	l.Figure("goodput_10x", rep.ofBest(s.Own, 10))
	for name, other := range map[string]string{
		"vs_priority_breakers_goodput": priorityName, "vs_oracle": limitName,
		"vs_oracle_without_lengths": limitBlindName,
	} {
		if ratio := rep.Ratio(at(2), s.Own, other, goodput); ratio != nil {
			l[name] = ratio.Median
		}
	}
	l["target_met"] = l.Meets(targets) && l["critical_lost"] == 0 && rep.latest() <= mostLate
	return l
}

// figures returns those of a contender, of all rounds at all loads.
func (rep *report) figures(name string) bench.Line {
	l := bench.Line{}
	lost, falsely, late := 0, 0, 0
	for _, load := range rep.settings.loads {
		runs, refusals := rep.Of(at(load), name), 0
		for i := range runs {
			lost += runs[i].lost
			refusals += runs[i].refused
			falsely += runs[i].wrongly
			late += runs[i].accepted
		}
		if refusals > 0 { // without a wait; the worst load counts
			l.Worst("refusal_p99_ms", bench.SpreadBy(runs, refusalP99).Median, true)
		}
	}
	l["critical_lost"], l["false_refusals"], l["late_accepted"] = lost, falsely, late
	if l["refusal_p99_ms"] == nil {
		l["refusal_p99_ms"] = nil // null: there are none
	}
	for figure, load := range map[string]float64{"goodput_2x": 2, "goodput_10x": 10} {
		if s := rep.ofBest(name, load); s != nil {
			l[figure] = s.Median
		}
	}
	return l
}
