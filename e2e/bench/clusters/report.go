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
func recovery(r *result) float64 { return r.recovery.Seconds() }
func back(r *result) float64     { return r.back.Seconds() }
func failed(r *result) float64   { return bench.Percent(r.failed, r.requests) }

func (rep *report) table() *bench.Table {
	t := &bench.Table{Head: []string{
		"contender: median (min..max)", "p50 ms", "p99 ms", "p99 of weighted's", "failed %", "recovery s",
		"after failures s", "shares",
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
		t.Add(c.name, spread(p50, "%.0f"), spread(p99, "%.0f"), ratio, spread(failed, "%.2f"), spread(recovery, "%.2f"),
			spread(back, "%.2f"), shares[1:])
	}
	return t
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s, p := rep.settings, rep.settings.phases
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateway share it",
		"gateway: the shipped plain layout, 2 workers, the same process for all contenders, switched by configuration",
	}
	for _, site := range newSites() {
		lines = append(lines, fmt.Sprintf("cluster %s: one server, %d requests at once, %v each, no limit on its queue",
			site.name, site.slots, site.service))
	}
	lines = append(lines, fmt.Sprintf("traffic: open loop, Poisson, %v of the capacity; %d rounds with seeds from %d; "+
		"measured from %v to %v; %s takes %d times as long from %v to %v, %s answers 500 at once from %v to %v",
		s.rate, s.rounds, s.seed, p.warm, p.end, newSites()[slowing].name, p.slowBy, p.slow, p.recovers,
		newSites()[failing].name, p.fails, p.works),
		fmt.Sprintf("recovery: until a cluster has half of its share of %v to %v again, in spans of %v",
			p.warm, p.slow, p.recovered))
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
	Back     float64  `json:"recovery_after_failures_s"`
	Failed   float64  `json:"failed_percent"`
}

func (rep *report) figures(name string) figures {
	rs := rep.of(name)
	median := func(of func(*result) float64) float64 { return bench.SpreadOf(bench.Values(rs, of)).Median }
	f := figures{P99: median(p99), Recovery: median(recovery), Back: median(back), Failed: median(failed)}
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
