// Package attacks plays honest traffic through real gateways that one client, or one server, attacks, and the same
// traffic at the same time through gateways without an attacker. It measures what the attacker achieves: requests
// moved, endpoints ejected, caps passed, caches forgotten, latency.
package attacks

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

type settings struct {
	bench.Settings
	warm    time.Duration
	span    time.Duration
	load    float64
	attacks string
}

func parse() (settings, error) {
	var s settings
	s.Flags(3)
	s.WorkersFlag(2)
	flag.DurationVar(&s.warm, "warm", 2*time.Second, "time before that with the same traffic, not measured")
	flag.DurationVar(&s.span, "span", 13*time.Second, "time in which the measured requests of a run arrive")
	flag.Float64Var(&s.load, "load", 0.53, "share of the servers' slots that honest traffic uses")
	bench.OnlyFlag(&s.attacks, "attacks", ids()) // each with all its scenarios
	flag.Parse()
	return s, nil
}

// Benchmark is to be played.
var Benchmark = bench.New("attacks", parse, run)

func run(ctx context.Context, s settings) error {
	chosen, err := selected(s.attacks)
	if err != nil {
		return err
	}
	rep := &report{settings: s, attacks: chosen, results: make([][]result, len(chosen))}
	for round := range s.Rounds {
		for _, together := range batches {
			if err := rep.play(ctx, round, together); err != nil {
				return err
			}
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line(), rep.targetTable())
}

// play has one round of the scenarios that are played together, as far as an attack of theirs was chosen.
func (rep *report) play(ctx context.Context, round int, together []string) error {
	var arms []*arm
	for _, name := range together {
		sc := scenarioOf(name)
		var of []*arm
		for i := range rep.attacks {
			if rep.attacks[i].scenario == name {
				of = append(of, &arm{scenario: sc, attack: &rep.attacks[i], place: i, round: round})
			}
		}
		if len(of) > 0 {
			arms = append(arms, &arm{scenario: sc, round: round}, &arm{scenario: sc, round: round, again: true})
			arms = append(arms, of...)
		}
	}
	if len(arms) == 0 {
		return nil
	}
	if err := playAll(ctx, rep.settings, arms); err != nil {
		return err
	}
	for i := range arms {
		if arms[i].attack == nil {
			continue
		}
		first, second := controlsOf(arms, arms[i].scenario)
		r := resultOf(arms[i], first, second, rep.settings)
		fmt.Printf("round %d  %-18s %s\n", round+1, arms[i].attack, shown(arms[i].attack).Show(&r))
		rep.results[arms[i].place] = append(rep.results[arms[i].place], r)
	}
	return nil
}

// controlsOf returns the two arms of a scenario without an attacker.
func controlsOf(arms []*arm, sc *scenario) (first, second *arm) {
	for _, a := range arms {
		switch {
		case a.scenario != sc || a.attack != nil:
		case a.again:
			second = a
		default:
			first = a
		}
	}
	return first, second
}

// report is the output of the benchmark.
type report struct {
	settings settings
	attacks  []attack
	results  [][]result // by attack, then by round
}

// column is one measured quantity; when reports for which attacks it is shown.
type column struct {
	bench.Column[result]
	when func(*attack) bool
}

func always(*attack) bool      { return true }
func byClient(a *attack) bool  { return a.share > 0 }
func onPrompts(a *attack) bool { return scenarioOf(a.scenario).talks }
func isFast(a *attack) bool    { return a.fast }
func isCapped(a *attack) bool  { return a.capped }
func onScripts(a *attack) bool { return a.scripts }

var columns = []column{
	{bench.Col("moved over the attacker's share", "%.2f", func(r *result) float64 { return r.perShare() }), byClient},
	{bench.Col("… of two controls", "%.2f", func(r *result) float64 { return r.null() }), byClient},
	{bench.Col("moved, % of honest requests", "%.1f", func(r *result) float64 { return 100 * r.moved() }), byClient},
	{bench.Col("largest share of a server, %", "%.1f", func(r *result) float64 { return 100 * r.maxShare }), always},
	{bench.Col("… controls", "%.1f", func(r *result) float64 { return 100 * r.maxShareNull }), always},
	{bench.Col("ejections", "%.0f", func(r *result) float64 { return r.ejected }), always},
	{bench.Col("… by Envoy", "%.0f", func(r *result) float64 { return r.native }), always},
	{bench.Col("p99 over controls", "%.2f", func(r *result) float64 { return r.p99 }), always},
	{bench.Col("… of two controls", "%.2f", func(r *result) float64 { return r.p99Null }), always},
	{bench.Col("honest failed, %", "%.1f", func(r *result) float64 { return 100 * r.failed }), always},
	{bench.Col("share of the 404 server", "%.2f", func(r *result) float64 { return r.fast }), isFast},
	{bench.Col("above the cap", "%.0f", func(r *result) float64 { return r.passed }), isCapped},
	{bench.Col("matched lost", "%.3f", func(r *result) float64 { return r.lost }), onPrompts},
	{bench.Col("… of two controls", "%.3f", func(r *result) float64 { return r.lostNull }), onPrompts},
	{bench.Col("longest script ms", "%.2f", func(r *result) float64 { return r.script }), onScripts},
	{bench.Col("… controls", "%.2f", func(r *result) float64 { return r.scriptNull }), onScripts},
	{bench.Col("scripts above 2 ms", "%.0f", func(r *result) float64 { return r.slow }), onScripts},
	{bench.Col("… controls", "%.0f", func(r *result) float64 { return r.slowNull }), onScripts},
}

// shown returns the columns of an attack.
func shown(a *attack) (list bench.Columns[result]) {
	for _, c := range columns {
		if c.when(a) {
			list = append(list, c.Column)
		}
	}
	return list
}

func (rep *report) table() *bench.Table {
	t := &bench.Table{Head: []string{"median (min..max)"}}
	for _, c := range columns {
		t.Head = append(t.Head, c.Head)
	}
	for i := range rep.attacks {
		row := []string{rep.attacks[i].String()}
		for _, c := range columns {
			cell := "–"
			if c.when(&rep.attacks[i]) {
				cell = bench.SpreadBy(rep.results[i], c.Of).Format(c.Verb)
			}
			row = append(row, cell)
		}
		t.Add(row...)
	}
	return t
}

// targetTable shows the figures of the last line beside their targets.
func (rep *report) targetTable() *bench.Table {
	t := &bench.Table{Head: []string{"figure", "measured", "target", "spread", "attack"}}
	for _, f := range rep.figures() {
		t.Add(f.name, fmt.Sprintf("%.3g", f.value), fmt.Sprintf("≤ %g", f.limit), f.spread.Format("%.3g"), f.worst)
	}
	return t
}

// configuration returns what was played.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		fmt.Sprintf("servers: %s; the model stops after %d tokens", compare.Describe(engine()), stopsAfter),
		fmt.Sprintf("honest traffic: open loop, the same in all runs of a scenario; %d clients from %s on; answers "+
			"%+v tokens; prompts %+v tokens, or conversations of %d turns, %v apart", honestClients, honestIP(0),
			answers, prompts, talkTurns, talkGap),
		fmt.Sprintf("attacker: from %s, during all of a run; its share is of all requests", attackerIP),
		fmt.Sprintf("404 server: what was due %v after the beginning or later; latency: p99 of the time to the first "+
			"token, of Anthropic's API of the whole answer", learnt),
	}
	for _, sc := range scenarios {
		if slices.ContainsFunc(rep.attacks, func(a attack) bool { return a.scenario == sc.name }) {
			lines = append(lines, fmt.Sprintf("scenario %s: %d servers, %.0f %% of their slots, %s, Warmgate %s",
				sc.name, sc.servers, 100*s.load*sc.share, sc.path, sc.plugin))
		}
	}
	for i := range rep.attacks {
		a := &rep.attacks[i]
		lines = append(lines, fmt.Sprintf("attack %s: scenario %s, %.0f %% of all requests; %s",
			a, a.scenario, 100*a.share, a.about))
	}
	return lines
}

// figure is one figure of the last line, that of the attack with the largest median.
type figure struct {
	name   string
	limit  float64 // at most
	value  float64
	spread bench.Spread
	null   bench.Spread // what runs without attack show
	worst  string       // attack
}

// target is the required value of a figure.
type target struct {
	name  string
	limit float64
	part  func(*attack) bool // has a part in it
	get   func(*result) float64
	null  func(*result) float64
	most  bool // every round counts, not the one in the middle
}

var targets = []target{
	{
		"displaced_max", 2, func(a *attack) bool { return a.moved },
		(*result).perShare, (*result).null, false,
	},
	{
		"ejected_by_clients", 0, func(a *attack) bool { return a.ejection },
		func(r *result) float64 { return r.ejected }, func(r *result) float64 { return r.ejectedNull }, true,
	},
	{
		"fast_4xx_share", 0.1, isFast,
		func(r *result) float64 { return r.fast }, func(r *result) float64 { return r.fastNull }, false,
	},
	{
		"cap_passed", 0, isCapped,
		func(r *result) float64 { return r.passed }, func(r *result) float64 { return r.passedNull }, true,
	},
	{
		"matching_lost", 0.02, func(a *attack) bool { return a.matching },
		func(r *result) float64 { return r.lost }, func(r *result) float64 { return r.lostNull }, false,
	},
	{
		"script_ms_max", 2, onScripts,
		func(r *result) float64 { return r.script }, func(r *result) float64 { return r.scriptNull }, false,
	},
	{
		"honest_p99_ratio", 1.1, func(a *attack) bool { return a.latency },
		func(r *result) float64 { return r.p99 }, func(r *result) float64 { return r.p99Null }, false,
	},
}

// figures returns the figures that were measured, in the order of the targets.
func (rep *report) figures() []figure {
	var out []figure
	for _, t := range targets {
		f, found := figure{name: t.name, limit: t.limit}, false
		for i := range rep.attacks {
			if !t.part(&rep.attacks[i]) || len(rep.results[i]) == 0 {
				continue
			}
			spread := bench.SpreadBy(rep.results[i], t.get)
			value := spread.Median
			if t.most {
				value = spread.Max
			}
			if !found || value > f.value {
				f.value, f.spread, f.worst = value, spread, rep.attacks[i].String()
				f.null = bench.SpreadBy(rep.results[i], t.null)
			}
			found = true
		}
		if found {
			out = append(out, f)
		}
	}
	return out
}

// line returns the last line of the output. A figure is that of the worst attack: the median of the rounds, or for what
// must not happen at all the largest. What was not played is absent.
// docs/benchmarks/attacks.md describes the figures.
func (rep *report) line() bench.Line {
	s := rep.settings
	out := bench.Line{
		"bench": "attacks", "rounds": s.Rounds, "span_s": s.span.Seconds(), "workers": s.Workers, "seed": s.Seed,
	}
	missed, figures := []string{}, rep.figures()
	for _, f := range figures {
		out[f.name], out[f.name+"_worst"] = f.value, f.worst
		out[f.name+"_spread"], out[f.name+"_null"] = f.spread, f.null
		if f.value > f.limit {
			missed = append(missed, f.name)
		}
	}
	native := 0.0
	for i := range rep.attacks {
		if rep.attacks[i].ejection {
			native = max(native, bench.SpreadBy(rep.results[i], func(r *result) float64 { return r.native }).Max)
		}
	}
	out["ejected_by_envoy"], out["missed"] = native, missed
	out["target_met"] = len(missed) == 0 && len(figures) == len(targets)
	return out
}
