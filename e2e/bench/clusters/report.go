package main

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// report is the output of the benchmark.
type report struct {
	settings   settings
	contenders []contender
	results    [][]result // by contender, then by round
}

const weighted = "weighted"

// of returns what a contender did, by round; nil if it was not played.
func (rep *report) of(name string) []result {
	if i := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == name }); i >= 0 {
		return rep.results[i]
	}
	return nil
}

func p99(r *result) float64      { return bench.MS(r.p99) }
func p50(r *result) float64      { return bench.MS(r.p50) }
func slowed(r *result) float64   { return 100 * r.slowed }
func recovery(r *result) float64 { return r.recovery.after.Seconds() }
func back(r *result) float64     { return r.back.after.Seconds() }
func failed(r *result) float64   { return bench.Percent(r.failed, r.requests) }

func (rep *report) table() *bench.Table {
	t := &bench.Table{Head: []string{
		"contender: median (min..max)", "p50 ms", "p99 ms", "p99 of weighted's", "failed %", "share while slow %",
		"recovery s", "after failures s", "shares",
	}}
	for _, c := range rep.contenders {
		rs := rep.of(c.name)
		spread := func(of func(*result) float64, verb string) string {
			return bench.SpreadOf(bench.Values(rs, of)).Format(verb)
		}
		ratio := "–"
		if native := rep.of(weighted); native != nil {
			ratio = bench.RatioBy(rs, native, p99).Format("%.2f")
		}
		shares := ""
		for _, s := range newSites() {
			shares += fmt.Sprintf(" %.0f", 100*rs[0].shares[s.name])
		}
		t.Add(c.name, spread(p50, "%.0f"), spread(p99, "%.0f"), ratio, spread(failed, "%.2f"), spread(slowed, "%.1f"),
			spread(recovery, "%.1f")+missed(rs, func(r *result) returned { return r.recovery }),
			spread(back, "%.1f")+missed(rs, func(r *result) returned { return r.back }), shares[1:])
	}
	return t
}

// missed tells in how many rounds a cluster was not back in time, "" for none.
func missed(rs []result, of func(*result) returned) string {
	if n := never(rs, of); n > 0 {
		return fmt.Sprintf(", not back in %d of %d", n, len(rs))
	}
	return ""
}

// never returns in how many rounds a cluster was not back in time.
func never(rs []result, of func(*result) returned) (n int) {
	for i := range rs {
		if of(&rs[i]).never {
			n++
		}
	}
	return n
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s, p := rep.settings, rep.settings.phases
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateways share it",
		fmt.Sprintf("gateway: the shipped plain layout, 2 workers, a new process for each run; %d contenders at a "+
			"time are played side by side", s.lanes),
	}
	for _, site := range newSites() {
		lines = append(lines, fmt.Sprintf("cluster %s: one server, %d requests at once, %v each, no limit on its queue",
			site.name, site.slots, site.service))
	}
	lines = append(lines, fmt.Sprintf("traffic: open loop, Poisson, %v of the capacity; %d rounds with seeds from %d; "+
		"measured from %v to %v; %s takes %d times as long from %v to %v, %s answers 500 at once from %v to %v",
		s.rate, s.rounds, s.seed, p.warm, p.end, newSites()[slowing].name, p.slowBy, p.slow, p.recovers,
		newSites()[failing].name, p.fails, p.works),
		fmt.Sprintf("recovery: until a cluster has half of its part of the capacity in the last %v, at most %v, and "+
			"%v after failures; share while slow: of that cluster in the last %v before it recovers",
			p.recovered, p.fails-p.recovers, p.end-p.works, p.recovered))
	for _, c := range rep.contenders {
		text := c.name + ": "
		if c.about != "" {
			text += c.about + ", "
		}
		lines = append(lines, text+"plugin "+c.config)
	}
	return lines
}

// figures are those of a contender, medians of the rounds.
type figures struct {
	P99      float64  `json:"p99_ms"`
	Weighted *float64 `json:"p99_vs_weighted,omitempty"`
	Recovery float64  `json:"recovery_s"`
	Never    int      `json:"never_recovered"` // rounds in which it was not back in time
	Back     float64  `json:"recovery_after_failures_s"`
	NotBack  int      `json:"never_back_after_failures"`
	Slowed   float64  `json:"share_while_slow_percent"`
	Failed   float64  `json:"failed_percent"`
}

func (rep *report) figures(name string) figures {
	rs := rep.of(name)
	median := func(of func(*result) float64) float64 { return bench.SpreadOf(bench.Values(rs, of)).Median }
	f := figures{
		P99: median(p99), Recovery: median(recovery), Back: median(back), Failed: median(failed),
		Slowed:  median(slowed),
		Never:   never(rs, func(r *result) returned { return r.recovery }),
		NotBack: never(rs, func(r *result) returned { return r.back }),
	}
	if native := rep.of(weighted); native != nil {
		ratio := bench.RatioBy(rs, native, p99).Median
		f.Weighted = &ratio
	}
	return f
}

// line is the last line of the output.
type line struct {
	Bench string `json:"bench"`
	Own   string `json:"own"` // the contender that the figures are of
	figures
	Rounds int                `json:"rounds"`
	All    map[string]figures `json:"contenders"`
}

func (rep *report) line() line {
	l := line{Bench: "clusters", Own: rep.settings.own, Rounds: rep.settings.rounds, All: map[string]figures{}}
	for _, c := range rep.contenders {
		l.All[c.name] = rep.figures(c.name)
	}
	l.figures = l.All[l.Own]
	return l
}
