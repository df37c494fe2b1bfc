package clusters

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// report is the output of the benchmark.
type report struct {
	bench.Runs[result]
	settings   settings
	contenders []contender
}

const weighted = "weighted"

func p99(r *result) float64    { return bench.MS(r.p99) }
func p50(r *result) float64    { return bench.MS(r.p50) }
func slowed(r *result) float64 { return 100 * r.slowed }
func failed(r *result) float64 { return bench.Percent(r.failed, r.requests) }

func recovery(r *result) returned { return r.recovery }
func back(r *result) returned     { return r.back }

var columns = bench.Columns[result]{
	bench.Col("p50 ms", "%.0f", p50),
	bench.Col("p99 ms", "%.0f", p99),
	bench.Col("failed %", "%.2f", failed),
	bench.Col("share while slow %", "%.1f", slowed),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("contender: median (min..max)")
	t.Head = append(slices.Insert(t.Head, 3, "p99 of weighted's"), "recovery s", "after failures s", "shares")
	rep.Each(func(_, name string, rs []result) {
		ratio := "–"
		if over := rep.Ratio("", name, weighted, p99); over != nil {
			ratio = over.Format("%.2f")
		}
		shares := ""
		for _, s := range newSites() {
			shares += fmt.Sprintf(" %.0f", 100*rs[0].shares[s.name])
		}
		t.Add(append(slices.Insert(columns.Row(rs, name), 3, ratio), backOf(rs, recovery).String(),
			backOf(rs, back).String(), shares[1:])...)
	})
	return t
}

// backs is after what time a cluster was back, over the rounds.
type backs struct {
	rounds, never, stayed int
	after                 []float64 // s, of the rounds in which it was left
}

func backOf(rs []result, of func(*result) returned) backs {
	b := backs{rounds: len(rs)}
	for i := range rs {
		r := of(&rs[i])
		if r.never {
			b.never++
		}
		if r.stayed {
			b.stayed++
			continue
		}
		b.after = append(b.after, r.after.Seconds())
	}
	return b
}

// median returns nil if the cluster was never left.
func (b backs) median() *float64 {
	if len(b.after) == 0 {
		return nil
	}
	median := bench.SpreadOf(b.after).Median
	return &median
}

func (b backs) String() string {
	text := "–"
	if len(b.after) > 0 {
		text = bench.SpreadOf(b.after).Format("%.1f")
	}
	if b.never > 0 {
		text += fmt.Sprintf(", not back in %d of %d", b.never, b.rounds)
	}
	if b.stayed > 0 {
		text += fmt.Sprintf(", not left in %d of %d", b.stayed, b.rounds)
	}
	return text
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s, p := rep.settings, rep.settings.phases
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateways share it",
		fmt.Sprintf("gateway: the shipped plain layout, 2 workers, a new process for each run; %d contenders at a "+
			"time are played side by side", s.Lanes),
	}
	for _, site := range newSites() {
		lines = append(lines, fmt.Sprintf("cluster %s: one server, %d requests at once, %v each, no limit on its queue",
			site.name, site.slots, site.service))
	}
	lines = append(lines, fmt.Sprintf("traffic: open loop, Poisson, %v of the capacity; %d rounds with seeds from %d; "+
		"measured from %v to %v; %s takes %d times as long from %v to %v, %s answers 500 at once from %v to %v",
		s.rate, s.Rounds, s.Seed, p.warm, p.end, newSites()[slowing].name, p.slowBy, p.slow, p.recovers,
		newSites()[failing].name, p.fails, p.works),
		fmt.Sprintf("recovery: until a cluster has half of its part of the capacity in the last %v, at most %v, and "+
			"%v after failures; not left: it has that much in the last %v before that, too; share while slow: of that "+
			"cluster in these; p50 and p99 are of what was answered with 200",
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
