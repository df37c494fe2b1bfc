// Package clusters chooses among three clusters of unequal speed, of which one slows down and recovers, and one fails
// every request at once for a while and recovers. Warmgate's cluster_metrics is compared with Envoy's
// weighted_clusters, whose weights are the speeds, and with counts per VM: the rules that Higress's plugin publishes,
// with a state of its own for each of two VMs. Each plays with a gateway and servers of its own, two side by side; in
// every round they get requests at the same times, in rotating order.
//
// The counts per VM are played by the load generator in the gateway's place, without the plugin: each request belongs
// to a VM at random, and carries the choice in the header that the route takes its cluster from. So they cost no time
// and lose no news.
package clusters

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/clusters/modes"
)

// load is that of the targets.
const load = 0.6

type settings struct {
	bench.Settings
	quick     bool
	rate      float64
	modes     int // seeds; above 0 the modes are played against each other in simulated time, and nothing else
	contender string
	phases    phases
}

func parse() (settings, error) {
	s := settings{phases: usual}
	s.Flags(3)
	s.LanesFlag(2)
	s.OwnFlag(contenders[0].name)
	flag.BoolVar(&s.quick, "quick", false, "one round")
	flag.Float64Var(&s.rate, "load", load, "arrivals as a part of what all clusters can serve")
	flag.IntVar(&s.modes, "modes", 0, "seeds of the modes against each other, in simulated time without a gateway")
	bench.OnlyFlag(&s.contender, "contenders", bench.Names(contenders, nameOf))
	flag.Parse()
	if s.quick {
		s.Rounds = 1
	}
	if s.rate <= 0 || s.rate > 1 {
		return s, errors.New("-load must be above 0 and at most 1")
	}
	return s, s.Valid()
}

// Benchmark is to be played.
var Benchmark = bench.New("clusters", parse, run)

func run(ctx context.Context, s settings) error {
	if s.modes > 0 {
		return modes.Print(os.Stdout, s.Markdown, s.modes)
	}
	list, err := bench.Named(contenders, s.contender, nameOf)
	if err != nil {
		return err
	}
	if s.Own != contenders[0].name && !slices.Contains(bench.Names(list, nameOf), s.Own) {
		return fmt.Errorf("-own: %q is not played", s.Own)
	}
	rep := &report{settings: s, contenders: list}
	if err := bench.PlaySideBySide(ctx, &rep.Runs, columns, "", s.Lanes, s.Rounds, bench.Names(list, nameOf), func(
		ctx context.Context, _, round, i int,
	) (r result, err error) {
		// What one has learned of a cluster lives on in a gateway, whatever is configured next.
		st, err := newStage(ctx)
		if err != nil {
			return r, err
		}
		defer st.close()
		return st.play(ctx, s, &list[i], s.Seed+uint64(round))
	}); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// phases are when what happens in a run, from its beginning.
type phases struct {
	warm      time.Duration // what is before that is not measured
	slow      time.Duration // one cluster slows down
	recovers  time.Duration // and is as before
	fails     time.Duration // another one fails every request
	works     time.Duration // and is as before
	end       time.Duration
	slowBy    int           // how many times as long answers take meanwhile
	recovered time.Duration // in such spans the share after a recovery is counted
}

var usual = phases{
	warm: 3 * time.Second, slow: 5 * time.Second, recovers: 10 * time.Second, fails: 22 * time.Second,
	works: 24 * time.Second, end: 44 * time.Second, slowBy: 10, recovered: time.Second,
}

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

// configuration returns what was compared.
func (rep *report) configuration() (lines []string) {
	p := rep.settings.phases
	for _, site := range newSites() {
		lines = append(lines, fmt.Sprintf("cluster %s: one server, %d requests at once, %v each, no limit on its queue",
			site.name, site.slots, site.service))
	}
	lines = append(lines, fmt.Sprintf("traffic: open loop, Poisson; measured from %v to %v; %s takes %d times as long "+
		"from %v to %v, %s answers 500 at once from %v to %v", p.warm, p.end, newSites()[slowing].name, p.slowBy,
		p.slow, p.recovers, newSites()[failing].name, p.fails, p.works),
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

// figures returns those of a contender, medians of the rounds.
func (rep *report) figures(c *contender) bench.Line {
	rs := rep.Of("", c.name)
	slow, fails := backOf(rs, recovery), backOf(rs, back)
	l := bench.Line{
		"never_recovered": slow.never, "never_left": slow.stayed,
		"never_back_after_failures": fails.never, "never_left_while_failing": fails.stayed,
	}
	l.Number("recovery_s", slow.median()) // of the rounds in which the slow cluster was left
	l.Number("recovery_after_failures_s", fails.median())
	l.Number("p99_ms", rep.Median("", c.name, p99))
	l.Number("share_while_slow_percent", rep.Median("", c.name, slowed))
	l.Number("failed_percent", rep.Median("", c.name, failed))
	for name, over := range map[string]string{
		"p99_vs_weighted": weighted, "p99_vs_per_vm": c.mode + publishedSuffix,
	} {
		if ratio := rep.Ratio("", c.name, over, p99); ratio != nil {
			l[name] = ratio.Median
		}
	}
	return l
}

// line returns the last line of the output, with the figures of the contender that is named as own, and of all.
// docs/benchmarks/clusters.md describes them.
func (rep *report) line() bench.Line {
	s, all := rep.settings, map[string]bench.Line{}
	l := bench.Line{
		"bench": "clusters", "own": s.Own, "rounds": s.Rounds, "contenders": all,
		// Elsewhere than in the cluster that fails.
		"errors": rep.Count(func(r *result) int { return r.errors }),
	}
	for i := range rep.contenders {
		if c := &rep.contenders[i]; len(rep.Of("", c.name)) > 0 {
			all[c.name] = rep.figures(c)
		}
	}
	maps.Copy(l, all[s.Own])
	if best := rep.bestMode(); best != "" {
		l["best_mode"] = best
		l["p99_vs_modes"] = rep.Ratio("", s.Own, best, p99).Median
	}
	l.Judge(rep.unmet(l, all))
	return l
}

// bestMode returns the other mode of Warmgate's with the lowest p99, "" if none was played beside the own contender.
func (rep *report) bestMode() (best string) {
	if len(rep.Of("", rep.settings.Own)) == 0 {
		return ""
	}
	for i := range rep.contenders {
		c := &rep.contenders[i]
		if c.mode == "" || c.header != nil || c.name == rep.settings.Own || len(rep.Of("", c.name)) == 0 {
			continue
		}
		if best == "" || *rep.Median("", c.name, p99) < *rep.Median("", best, p99) {
			best = c.name
		}
	}
	return best
}

// asGood is how much more than that of the best other mode p99 may be: rounds differ by that.
const asGood = 1.05

// soon is within how many seconds a cluster that has recovered has to be used again.
const soon = 10

// unmet returns why the targets are not met.
func (rep *report) unmet(l bench.Line, all map[string]bench.Line) (why bench.Reasons) {
	not := why.If
	s := rep.settings
	if all[s.Own] == nil {
		return bench.Reasons{s.Own + " was not played"}
	}
	not(s.rate != load, "another load than that of the targets")
	not(l["errors"] != 0, "%d requests failed elsewhere than in the cluster that fails", l["errors"])
	i := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == s.Own })
	not(l["p99_vs_weighted"] == nil, "%s was not played", weighted)
	not(l["p99_vs_per_vm"] == nil, "%s was not played", rep.contenders[i].mode+publishedSuffix)
	not(l.Value("p99_vs_weighted") >= 1, "p99 is not below that of %s", weighted)
	// Requests that fail at once are not in p99: whoever has more of them has less of the rest.
	ours, most := l.Value("failed_percent"), all[weighted].Value("failed_percent")
	not(ours > most, "%.2f %% failed, of %s %.2f %%", ours, weighted, most)
	not(l["never_left"] != 0, "the slow cluster was not left in %d of %d rounds", l["never_left"], s.Rounds)
	not(l["never_recovered"] != 0, "it was not back in %d of %d rounds", l["never_recovered"], s.Rounds)
	not(l.Value("recovery_s") > soon, "it was back after %.1f s", l.Value("recovery_s"))
	if l["p99_vs_modes"] != nil {
		not(l.Value("p99_vs_modes") > asGood, "p99 is %.2f of that of %s", l.Value("p99_vs_modes"), l["best_mode"])
	}
	not(l["never_back_after_failures"] != 0 || l.Value("recovery_after_failures_s") > soon,
		"after failures it was back after %.1f s", l.Value("recovery_after_failures_s"))
	return why
}
