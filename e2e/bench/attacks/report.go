package attacks

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

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
