package regions

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result] // by cell
	settings           settings
	cells              []cell
	contenders         []contender
}

func (rep *report) table() *bench.Table {
	return rep.Tabulate(columns, "workload@load, contender: median (min..max)")
}

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{
		fmt.Sprintf("regions %v, each with a gateway and %d servers of %s; one central gateway, in %s", names, servers,
			compare.Describe(engine()), names[0]),
		fmt.Sprintf("every request carries its conversation or tree in %s; what is under way %v after a run is cut "+
			"off, and counts as begun then; the cached share is of whole answers; one system prompt of %d tokens, "+
			"answers log-normal %+v",
			scripted.SessionHeader, rest, system, answers),
	}
	var last string
	for i := range rep.cells {
		if c := &rep.cells[i]; c.name != last {
			lines, last = append(lines, c.describe()), c.name
		}
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].name+": "+rep.contenders[i].describe())
	}
	return append(lines, rep.Notes...)
}

// busy is the share of the machine's CPU time beyond which its own limits show in the figures.
const busy = 0.8

// noteLimits tells which runs this machine was too small for.
func (rep *report) noteLimits() {
	rep.Each(func(cell, contender string, runs []result) {
		used := slices.MaxFunc(runs, func(a, b result) int { return cmp.Compare(machine(&a), machine(&b)) }).cpu
		if used.Machine > busy {
			rep.Note("%s, %s: %.0f %% of the machine's CPU time were used, %.2f cores of it by users, servers and "+
				"Envoys: its limits show", cell, contender, 100*used.Machine, used.Own+used.Gateways)
		}
	})
}

func allFailed(runs []result) (n int) {
	for i := range runs {
		n += runs[i].Failed
	}
	return n
}

func allUnanswered(runs []result) (sum unanswered) {
	for i := range runs {
		sum = sum.add(runs[i].unanswered)
	}
	return sum
}

// result is what one contender did in one cell.
type result struct {
	scripted.Figures                           // of all users
	by               [regions]scripted.Figures // of those of each region
	uneven           float64                   // requests of the busiest server over the mean of those that are used
	queued           float64                   // time that requests waited in servers for room, summed, s
	besideFree       float64                   // time in which a server had requests waiting while another had room, s
	preemptions      float64
	forwarded        counts  // requests of the whole run that were sent to another region's gateway
	away             float64 // the share of the measured requests of which that is true
	unanswered       unanswered
	cpu              bench.Used
}

// resultOf reduces the samples of a run, and takes what the servers have counted in all of it.
func resultOf(samples [regions][]loadgen.Sample, measured scripted.Window, st *stage) result {
	r := result{
		Figures: measured.Figures(slices.Concat(samples[:]...)), besideFree: st.fleet.State().QueueingWhileFree,
	}
	for i := range samples {
		r.by[i] = measured.Figures(samples[i])
	}
	delete(r.Summary.Endpoints, "") // of those that were cut off before they had one
	r.uneven = r.Uneven(len(r.Summary.Endpoints))
	r.away = away(samples, measured)
	for _, s := range st.servers {
		state := s.State()
		r.queued += state.QueuedSeconds
		r.preemptions += float64(state.Preemptions)
	}
	return r
}

// away returns the share of the requests of a window that were forwarded.
func away(samples [regions][]loadgen.Sample, measured scripted.Window) float64 {
	n, all := 0, 0
	for i := range samples {
		for k := range samples[i] {
			s := &samples[i][k]
			if s.Due < measured.From || s.Due >= measured.To {
				continue
			}
			all++
			if s.Header.Get(compare.RegionHeader) != "" {
				n++
			}
		}
	}
	return float64(n) / float64(max(1, all))
}

func tokens(r *result) float64  { return r.Rate }
func cached(r *result) float64  { return r.Cached }
func ttftP50(r *result) float64 { return bench.MS(r.Summary.TTFT.P50) }
func ttftP90(r *result) float64 { return bench.MS(r.Summary.TTFT.P90) }
func latency(r *result) float64 { return bench.MS(r.Summary.Latency.Mean) }
func machine(r *result) float64 { return r.cpu.Machine }

var columns = bench.Columns[result]{
	bench.Col("tokens/s", "%.0f", tokens),
	bench.Col("of users in "+names[0], "%.0f", func(r *result) float64 { return r.by[0].Rate }),
	bench.Col("TTFT p50 ms", "%.0f", ttftP50),
	bench.Col("p90", "%.0f", ttftP90),
	bench.Col("p99", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P99) }),
	bench.Col("latency mean ms", "%.0f", latency),
	bench.Col("p50 in "+names[0], "%.0f", func(r *result) float64 { return bench.MS(r.by[0].Summary.TTFT.P50) }),
	bench.Col("cached share", "%.3f", cached),
	bench.Col("forwarded, %", "%.1f", func(r *result) float64 { return 100 * r.away }),
	bench.Col("queued in servers, request·s", "%.1f", func(r *result) float64 { return r.queued }),
	bench.Col("… beside a server with room, s", "%.1f", func(r *result) float64 { return r.besideFree }),
	bench.Col("preemptions", "%.0f", func(r *result) float64 { return r.preemptions }),
	bench.Col("max/mean per server", "%.2f", func(r *result) float64 { return r.uneven }),
	bench.Col("errors", "%.0f", func(r *result) float64 { return float64(r.Failed) }),
	bench.Col("cut without a token", "%.0f", func(r *result) float64 { return float64(r.unanswered.all) }),
	bench.Col("… after 20 s", "%.0f", func(r *result) float64 { return float64(r.unanswered.long) }),
	bench.Col("cores of Envoy", "%.2f", func(r *result) float64 { return r.cpu.Gateways }),
	bench.Col("of users and servers", "%.2f", func(r *result) float64 { return r.cpu.Own }),
	bench.Col("CPU of the machine, %", "%.0f", func(r *result) float64 { return 100 * r.cpu.Machine }),
}

// targets are of medians, the worst of the cells.
var targets = []bench.Target{
	{Name: "throughput_vs_local", Limit: 1.15, Least: true},
	{Name: "nine_vs_twelve", Limit: 0.97, Least: true},
	{Name: "ttft_p50_vs_central", Limit: 0.58},
	{Name: "ttft_p90_vs_central", Limit: 0.5},
	{Name: "throughput_vs_central", Limit: 0.98, Least: true},
	{Name: "cached_share_vs_best", Limit: -0.01, Least: true},
}

// cellLine is what one contender did in a cell.
type cellLine struct {
	Tokens bench.Spread `json:"tokens_per_s"`
	P50    bench.Spread `json:"ttft_p50_ms"`
	P90    bench.Spread `json:"ttft_p90_ms"`
	All    bench.Spread `json:"latency_ms"` // mean, to the end of the answer
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
			bench.SpreadBy(runs, latency), bench.SpreadBy(runs, cached), allFailed(runs), cut.all, cut.long,
			allForwarded(runs),
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

// vsOthers compares TTFT and tokens/s with those of the best central contender, and the cached share with the best of
// all, in a cell. Those with fewer servers, variants and the ideal are not among them.
func (rep *report) vsOthers(l bench.Line, of map[string]cellLine) {
	ours, ok := of[rep.settings.Own]
	p50, p90, share, rate := math.Inf(1), math.Inf(1), math.Inf(-1), 0.0
	for _, c := range rep.contenders {
		theirs, played := of[c.name]
		if !ok || !played || c.name == rep.settings.Own || c.added || c.servers != twelve {
			continue
		}
		share = max(share, theirs.Cached.Median)
		if c.central {
			p50, p90 = min(p50, theirs.P50.Median), min(p90, theirs.P90.Median)
			rate = max(rate, theirs.Tokens.Median)
		}
	}
	if !math.IsInf(p50, 0) {
		l.Worst("ttft_p50_vs_central", ours.P50.Median/p50, true)
		l.Worst("ttft_p90_vs_central", ours.P90.Median/p90, true)
		l.Worst("throughput_vs_central", ours.Tokens.Median/rate, false)
	}
	if !math.IsInf(share, 0) {
		l.Worst("cached_share_vs_best", ours.Cached.Median-share, false)
	}
}

// unmet returns why the targets are not met. It begins with what takes the meaning from the figures.
func (rep *report) unmet(l bench.Line) bench.Reasons {
	why := rep.unplayed()
	why.If(rep.settings.scale != 1 || rep.settings.rtt != apart, "another load or distance than that of the targets")
	why.If(l["errors"] != 0, "%d requests failed", l["errors"])
	for i := range rep.cells {
		c := &rep.cells[i]
		ours := rep.Of(c.key(), rep.settings.Own)
		why.If(c.load == skewed && len(ours) > 0 && len(allForwarded(ours)) == 0, "%s: nothing was forwarded", c.key())
		long := allUnanswered(slices.Concat(ours, rep.Of(c.key(), rep.settings.Own+nine))).long
		why.If(long > 0, "%s: %d requests without a token after %v", c.key(), long, tooLong)
	}
	for _, t := range l.Missed(targets) {
		why.If(true, "%s is %.3f, not %g", t.Name, l.Value(t.Name), t.Limit)
	}
	return why
}

// unplayed names the cells that a target needs and that were not played, and, in those that were, the contenders.
func (rep *report) unplayed() (why bench.Reasons) {
	all, _ := cells(workloads(), "", "", 1) // of no names all are known
	for i := range all {
		if !slices.ContainsFunc(rep.cells, func(c cell) bool { return c.key() == all[i].key() }) {
			why = append(why, all[i].key()+" was not played")
			continue
		}
		for _, name := range needed(&all[i], rep.settings.Own) {
			why.If(len(rep.Of(all[i].key(), name)) == 0, "%s: %s was not played", all[i].key(), name)
		}
	}
	return why
}

// needed returns whom the targets of the own contender need in a cell.
func needed(at *cell, own string) []string {
	list := []string{own}
	if at.load == skewed {
		list = append(list, own+nine)
	}
	for _, c := range contenders(apart) {
		if !c.asked && !c.added && c.playedOn(at) && !slices.Contains(list, c.name) {
			list = append(list, c.name)
		}
	}
	return list
}
