// Package budget has ten model backends with quotas of their own do a backlog of tasks, and compares who places them:
// nobody, as it was (workers that send batches to the models in turn), the first iteration of a published service with
// weighted deficit round robin, and Warmgate's token_budget, by its admission API and in the path of the requests. The
// backends are simulated and refuse what is beyond their quotas, so that whoever sends too much is seen.
package budget

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
)

func parse() (settings, error) {
	s := settings{ttl: 3 * time.Second}
	s.Flags(3)
	s.LanesFlag(3) // they wait more than they compute
	s.OwnFlag(apiName)
	flag.IntVar(&s.tasks, "tasks", 2000, "tasks")
	flag.BoolVar(&s.quick, "quick", false, "one round")
	flag.DurationVar(&s.ttl, "ttl", s.ttl, "lease_ttl of the admission API")
	bench.OnlyFlag(&s.contenders, "contenders", bench.Names(contenders, nameOf))
	bench.OnlyFlag(&s.parts, "parts", []string{"tasks", "cost"})
	flag.Parse()
	if s.quick {
		s.Rounds = 1
	}
	return s, s.check()
}

func (s *settings) check() error {
	parts, err := bench.Named([]string{"tasks", "cost"}, s.parts, func(part string) string { return part })
	if err != nil {
		return err
	}
	s.parts = strings.Join(parts, ",")
	if s.tasks < 100 || s.ttl < time.Second {
		return errors.New("-tasks must be at least 100, -ttl at least 1s")
	}
	return s.Valid()
}

// plays reports whether a part is played.
func (s *settings) plays(part string) bool {
	return slices.Contains(strings.Split(s.parts, ","), part)
}

// Benchmark is to be played.
var Benchmark = bench.New("budget", parse, run)

func run(ctx context.Context, s settings) error {
	if _, err := harness.Wasm(ctx, harness.HostEnvoy); err != nil {
		return err
	}
	rep := &report{settings: s}
	if s.plays("tasks") {
		list, err := bench.Named(contenders, s.contenders, nameOf)
		if err != nil {
			return err
		}
		if !slices.Contains(bench.Names(list, nameOf), s.Own) {
			return fmt.Errorf("-own: %q is not played", s.Own)
		}
		if err := rep.playTasks(ctx, list); err != nil {
			return err
		}
	}
	if s.plays("cost") {
		var err error
		if rep.costs, err = playCost(ctx, s); err != nil {
			return err
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line(), rep.further()...)
}

// tooLong is when a run has failed: no contender needs a third of it.
const tooLong = 10 * time.Minute

// playTasks plays all rounds of all contenders, each with models and a gateway of its own.
func (rep *report) playTasks(ctx context.Context, list []contender) error {
	s := rep.settings
	rep.contenders = list
	return bench.PlaySideBySide(ctx, &rep.Runs, columns, "", s.Lanes, s.Rounds, bench.Names(list, nameOf), func(
		ctx context.Context, _, round, i int,
	) (r result, err error) {
		g := newGame(fleet(), tasksOf(s.Seed+uint64(round), s.tasks))
		defer g.close()
		ctx, cancel := context.WithTimeout(ctx, tooLong)
		defer cancel()
		if err := list[i].play(ctx, s, g); err != nil {
			return r, err
		}
		return g.judge(), nil
	})
}

// report is the output of the benchmark.
type report struct {
	bench.Runs[result]
	settings   settings
	contenders []contender
	costs      []costs // by round
}

func makespan(r *result) float64    { return r.makespan.Seconds() }
func overPerfect(r *result) float64 { return r.makespan.Seconds() / r.perfect.Seconds() }
func shareError(r *result) float64  { return 100 * r.shareError }
func tpmExcess(r *result) float64   { return r.tpmExcess }
func waitRatio(r *result) float64   { return r.waitRatio() }
func stampeded(r *result) float64   { return r.stampede }
func audit(r *result) float64       { return float64(r.audit()) }

func refused(r *result) float64 {
	sum := 0
	for _, n := range r.refused {
		sum += n
	}
	return float64(sum)
}

var columns = bench.Columns[result]{
	bench.Col("makespan, s", "%.1f", makespan),
	bench.Col("over perfect", "%.2f", overPerfect),
	bench.Col("share error, %", "%.1f", shareError),
	bench.Col("tokens over rate + burst", "%.3f", tpmExcess),
	bench.Col("calls refused by models", "%.0f", refused),
	bench.Col("p99 wait of large, s", "%.2f", func(r *result) float64 { return r.waitLarge.Seconds() }),
	bench.Col("of median, s", "%.2f", func(r *result) float64 { return r.waitMedian.Seconds() }),
	bench.Col("asks, or calls, in 100 ms over mean", "%.2f", stampeded),
	bench.Col("asks, or calls", "%.0f", func(r *result) float64 { return float64(r.asks) }),
	bench.Col("back after, s", "%.2f", func(r *result) float64 { return r.deaths.back.Seconds() }),
	bench.Col("audit", "%.0f", audit),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("contender: median (min..max)")
	t.Head = slices.Insert(t.Head, 2, "of batches'")
	rep.Each(func(_, name string, rs []result) {
		ratio := "–"
		if over := rep.Ratio("", name, batchesName, makespan); over != nil {
			ratio = over.Format("%.2f")
		}
		t.Add(slices.Insert(columns.Row(rs, name), 2, ratio)...)
	})
	return t
}

// further returns the table of the cost, if that was measured.
func (rep *report) further() []*bench.Table {
	if rep.costs == nil {
		return nil
	}
	t := costColumns.Table("median (min..max)")
	t.Add(costColumns.Row(rep.costs, "one gateway with Redis")...)
	return []*bench.Table{t}
}

// configuration returns what was compared.
func (rep *report) configuration() (lines []string) {
	s := rep.settings
	if rep.contenders != nil {
		for _, m := range fleet() {
			headers := "OpenAI's"
			if m.Anthropic {
				headers = "Anthropic's"
			}
			lines = append(lines, fmt.Sprintf("model %s: weight %v, %d calls at once, %.0f tokens and %.0f requests a "+
				"minute, %v times the time of a task; %s headers", m.Name, weightOf(&m), m.Slots, m.TokensPerMinute,
				m.RequestsPerMinute, m.Speed, headers))
		}
		lines = append(lines, fmt.Sprintf("tasks: log-normal, at most %d tokens at the median (σ %v, %d to %d), of "+
			"which 20 to 70 %% are for the answer, which has 35 to 100 %% of that; %d ms at the median (σ %v, %d to "+
			"%d) times the model's, which stands for %d times as long; all are there at the beginning", medianTokens,
			sigmaTokens, leastTokens, mostTokens, medianTime, sigmaTime, leastTime, mostTime, scale))
	}
	for _, c := range rep.contenders {
		lines = append(lines, c.name+": "+c.about)
	}
	if rep.contenders != nil {
		lines = append(lines, "plugin of api: "+apiConfig(fleet(), s.ttl, false),
			"plugin of proxy: "+proxyConfig(fleet()))
	}
	if rep.costs != nil {
		lines = append(lines, fmt.Sprintf("cost: %d callers on a connection each, for %v after %v; 10 models with "+
			"room for everything, one gateway with 2 workers, one Redis", callers, costSpan, costWarm))
	}
	return lines
}

// The targets, of medians; the audit must be 0 in every round.
var (
	targets = []bench.Target{
		{Name: "makespan_vs_batches", Limit: 0.5},
		{Name: "share_error_max", Limit: 0.05},
		{Name: "tpm_excess", Limit: targetExcess},
		{Name: "wait_p99_large_vs_median", Limit: 3},
		{Name: "stampede", Limit: 2},
		{Name: "stampede_keyless", Limit: 2},
	}
	costTargets = []bench.Target{
		{Name: "schedule_per_s", Limit: targetPerSecond, Least: true},
		{Name: "schedule_p99_ms", Limit: 20},
	}
)

// targetExcess: a call may be up to 60 ms longer on its way than another one, in which a rate brings a thousandth of a
// minute.
const targetExcess = 1.001

// targetBack is after how many seconds behind the lease slots are back; that is seen 20 ms later at most.
const targetBack = 1.02

// figures returns those of a contender, medians of the rounds.
func (rep *report) figures(c *contender) bench.Line {
	l := bench.Line{}
	median := func(name string, of func(*result) float64) { l.Number(name, rep.Median("", c.name, of)) }
	median("makespan_s", makespan)
	median("makespan_vs_perfect", overPerfect)
	median("share_error_max", func(r *result) float64 { return r.shareError })
	median("tpm_excess", tpmExcess)
	median("wait_p99_large_vs_median", waitRatio)
	median("refused_by_models", refused)
	if c.asks { // before they send
		median("asks_max_vs_mean", stampeded)
	}
	if ratio := rep.Ratio("", c.name, batchesName, makespan); ratio != nil {
		l["makespan_vs_batches"] = ratio.Median
	}
	wrong := 0 // in all rounds together
	for _, r := range rep.Of("", c.name) {
		wrong += r.audit()
		if r.deaths.workers > 0 {
			l.Worst("back_after_s", r.deaths.back.Seconds(), true)
		}
	}
	l["audit"] = wrong
	return l
}

// line returns the last line of the output, with the figures of the contender that is named as own, and of all.
// docs/benchmarks/budget.md describes them.
func (rep *report) line() bench.Line {
	s, all := rep.settings, map[string]bench.Line{}
	l := bench.Line{
		"bench": "budget", "own": s.Own, "rounds": s.Rounds, "tasks": s.tasks, "lease_ttl_s": s.ttl.Seconds(),
	}
	for i := range rep.contenders {
		if c := &rep.contenders[i]; len(rep.Of("", c.name)) > 0 {
			all[c.name] = rep.figures(c)
		}
	}
	if len(all) > 0 {
		l["contenders"] = all
	}
	maps.Copy(l, all[s.Own])
	for name, of := range map[string]string{"stampede": crowdName, "stampede_keyless": keylessName} {
		if most, ok := all[of]["asks_max_vs_mean"]; ok {
			l[name] = most
		}
	}
	if rep.costs != nil { // at half of the target of schedule_per_s
		l["schedule_per_s"] = bench.SpreadBy(rep.costs, func(c *costs) float64 { return c.perSecond }).Median
		l["schedule_p99_ms"] = bench.SpreadBy(rep.costs, func(c *costs) float64 { return bench.MS(c.p99) }).Median
	}
	l.Judge(rep.unmet(l, all)) // of what was played
	return l
}

// unmet returns why the targets are not met.
func (rep *report) unmet(l bench.Line, all map[string]bench.Line) (why bench.Reasons) {
	not := why.If
	missed := func(list []bench.Target) {
		for _, t := range l.Missed(list) {
			way := "above"
			if t.Least {
				way = "below"
			}
			not(true, "%s is %s %v", t.Name, way, t.Limit)
		}
	}
	if all[rep.settings.Own] != nil {
		not(all[batchesName] == nil, "%s was not played", batchesName)
		missed(targets)
		not(all[crowdName] == nil, "%q was not played", crowdName)
		not(all[keylessName] == nil, "%q was not played", keylessName)
		killed := all[killedName]
		back := killed.Value("back_after_s")
		not(killed == nil, "%q was not played", killedName)
		not(killed != nil && killed["back_after_s"] == nil, "no worker was killed")
		not(back > rep.settings.ttl.Seconds()+targetBack, "slots came back after %.2f s", back)
	}
	for _, c := range rep.contenders {
		wrong, played := all[c.name]["audit"]
		not(c.own && played && wrong != 0, "the audit of %q is not 0", c.name)
	}
	missed(costTargets)
	return why
}
