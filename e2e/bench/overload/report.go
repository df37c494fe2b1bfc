package overload

import (
	"fmt"
	"maps"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is the output of the benchmark.
type report struct {
	bench.Runs[Result] // by load
	settings           settings
	capacity           float64 // requests a second
	contenders         []Contender
	found              bench.Line // by the scenes
}

// best returns the best goodput of a contender over the loads, by round.
func (rep *report) best(contenderName string) []float64 {
	var out []float64
	for _, load := range rep.settings.loads {
		for round, r := range rep.Of(at(load), contenderName) {
			if round == len(out) {
				out = append(out, 0)
			}
			out[round] = max(out[round], r.Goodput)
		}
	}
	return out
}

// ofBest returns the goodput at a load over the best of all loads, round by round; nil if it was not played.
func (rep *report) ofBest(contenderName string, load float64) *bench.Spread {
	runs := rep.Of(at(load), contenderName)
	if len(runs) == 0 {
		return nil
	}
	s := bench.Ratios(bench.Values(runs, goodput), rep.best(contenderName))
	return &s
}

func goodput(r *Result) float64 { return r.Goodput }

func (rep *report) table() *bench.Table {
	t := columns.Table("contender, load: median (min..max)")
	t.Head = append(t.Head, "goodput, of its best")
	for _, c := range rep.contenders {
		for _, load := range rep.settings.loads {
			if runs := rep.Of(at(load), c.Name); len(runs) > 0 {
				row := columns.Row(runs, c.Name+", "+at(load))
				t.Add(append(row, rep.ofBest(c.Name, load).Format("%.2f"))...)
			}
		}
	}
	return t
}

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{
		"clients count as internal, so that the ids of their requests are kept",
		fmt.Sprintf("servers: %d simulated, no limit on the queue: %s: together a capacity of %.1f requests/s", servers,
			compare.Describe(fleet()[0]), rep.capacity),
		fmt.Sprintf("traffic: open loop, Poisson; prompt %+v, answer %+v tokens", workload(0).Prompt,
			workload(0).Output),
		"classes: " + describeClasses() + "; the deadline counts from the client's first attempt",
		fmt.Sprintf("clients: at most %d retries after 429, 5xx and broken connections, when Retry-After says (and up "+
			"to 10 %% later), else after %v and twice that (± 25 %%), none that would begin after the deadline; they "+
			"leave %v after it", maxRetries, backoff, grace),
	}
	for _, c := range rep.contenders {
		lines = append(lines, c.Name+": "+c.Policy.Describe())
	}
	if late := rep.latest(); late > mostLate {
		lines = append(lines, fmt.Sprintf("not valid: requests were sent up to %.0f ms late at p99, this machine was "+
			"too busy for these figures", bench.MS(late)))
	}
	return lines
}

// mostLate is the p99 of lateness above which a run says more of the machine than of the contender.
const mostLate = 50 * time.Millisecond

// latest returns the most of the p99 of how late the generator was, over all runs.
func (rep *report) latest() time.Duration {
	var most time.Duration
	rep.Each(func(_, _ string, runs []Result) {
		for i := range runs {
			most = max(most, runs[i].late)
		}
	})
	return most
}

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
		all[c.Name] = rep.figures(c.Name)
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
