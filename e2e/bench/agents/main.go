// Package agents compares ways to choose a server for what coding agents send: bodies with new values in front of a
// system prompt and cache markers that move, system prompts, tools and models behind long messages, pictures, answers
// that a server keeps, counts of tokens before each turn, and an adapter that three of four servers have. Envoy's
// least_request and ring_hash by session, the cache-aware routers of vLLM and SGLang, and Warmgate's prefix_cache with
// its defaults meet the same simulated servers with the same sessions, in rotating order. In simulated time it plays
// programs of agents with pauses, and more of them than servers have room for.
package agents

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

type settings struct {
	bench.Settings
	sessions int
	users    int
	policies string
	parts    string
}

// What is played: sessions with what is hard in their bodies, through a gateway; programs in simulated time.
var parts = []string{"bodies", "programs"}

func (s *settings) plays(part string) bool {
	return s.parts == "" || slices.Contains(strings.Split(s.parts, ","), part)
}

func parse() (settings, error) {
	var s settings
	var quick bool
	s.Flags(3)
	s.WorkersFlag(2)
	flag.IntVar(&s.sessions, "sessions", 96, "sessions of a round")
	flag.IntVar(&s.users, "users", 8, "sessions under way at once")
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders(), nameOf))
	bench.OnlyFlag(&s.parts, "parts", parts)
	flag.BoolVar(&quick, "quick", false, "one round with a third of the sessions")
	flag.Parse()
	if quick {
		s.Rounds, s.sessions = 1, s.sessions/3
	}
	return s, nil
}

// contenders returns all, in the order of the table.
func contenders() []router.Contender {
	return []router.Contender{
		router.By(compare.LeastRequest), router.By(compare.RingHash(scripted.SessionHeader)),
		router.Behind(router.VLLM(), ""), router.Behind(router.SGLang(), ""), router.By(compare.PrefixCache),
	}
}

func nameOf(c router.Contender) string { return c.Name() }

// Benchmark is to be played.
var Benchmark = bench.New("agents", parse, run)

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s, work: write(s.Seed, s.sessions)}
	if s.plays("programs") {
		var err error
		if rep.programs, err = programs(s); err != nil {
			return err
		}
	}
	if s.plays("bodies") {
		if err := rep.playBodies(ctx); err != nil {
			return err
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line(),
		rep.programs.Tabulate(programColumns, "scene, contender: median (min..max)"))
}

// playBodies has the contenders serve sessions through a gateway.
func (rep *report) playBodies(ctx context.Context) error {
	s := rep.settings
	chosen, err := bench.Named(contenders(), s.policies, nameOf)
	if err != nil {
		return err
	}
	self := func(c *router.Contender) *router.Contender { return c }
	if rep.contenders, err = router.Installed(ctx, chosen, self, &rep.Notes); err != nil {
		return err
	}
	list := rep.contenders
	return compare.On(ctx, compare.Options{
		Workers: s.Workers, Servers: rep.work.servers(), First: compare.LeastRequest,
	}, func(stage *compare.Stage) error {
		return bench.Play(&rep.Runs, columns, "", s.Rounds, bench.Names(list, nameOf),
			func(round int) (*workload, error) { return write(s.Seed+uint64(round), s.sessions), nil },
			func(w *workload, i int) (result, error) { return play(ctx, &list[i], stage, w, s.users) })
	})
}

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result]
	settings   settings
	work       *workload // of the first round
	contenders []router.Contender
	programs   bench.Runs[figures]
}

func ttft(r *result) float64       { return bench.MS(r.Summary.TTFT.Mean) }
func cached(r *result) float64     { return r.Cached }
func stays(r *result) float64      { return r.stays }
func matchError(r *result) float64 { return 100 * r.prediction.Off }
func firstToken(r *result) float64 { return r.firstToken }
func adapters(r *result) float64   { return r.notFound(toAdapter) }
func followUps(r *result) float64  { return r.notFound(followUp) }
func counts(r *result) float64     { return r.notFound(count) }

var columns = bench.Columns[result]{
	bench.Col("TTFT mean ms", "%.1f", ttft),
	bench.Col("p99", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P99) }),
	bench.Col("cached share", "%.3f", cached),
	bench.Col("turns that stay", "%.3f", stays),
	bench.Col("match error of prefix_cache, points", "%.1f", matchError),
	bench.Col("404 to the adapter", "%.3f", adapters),
	bench.Col("to follow-ups", "%.3f", followUps),
	bench.Col("to counts", "%.3f", counts),
	bench.Col("its first token off by ms", "%.0f", firstToken),
	bench.Col("max/mean per server", "%.2f", func(r *result) float64 { return r.uneven }),
	bench.Col("failed", "%.0f", func(r *result) float64 { return float64(r.Failed) }),
}

func (rep *report) table() *bench.Table { return rep.Tabulate(columns, "contender: median (min..max)") }

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{rep.work.describe()}
	for i := range rep.contenders {
		c := &rep.contenders[i]
		about := c.Name() + ": " + c.Describe()
		if c.Router != nil {
			about += "; all sessions as chats, because it has no route for messages"
		}
		lines = append(lines, about)
	}
	if rep.settings.plays("programs") {
		lines = append(lines, describePrograms()...)
	}
	return append(lines, rep.Notes...)
}

// aims of the last line.
var aims = []bench.Target{
	{Name: "match_error_points", Limit: 10},
	{Name: "stays_share", Limit: 0.95, Least: true},
	{Name: "ttft_vs_best", Limit: 1.05}, // as good as the best, within what two runs differ by
	{Name: "not_found_share", Limit: 0.02},
	{Name: "programs_stays_share", Limit: 0.95, Least: true},
	{Name: "programs_ttft_vs_best", Limit: 1.05},
	{Name: "fairness", Limit: 1.3},
}

// line returns the last line of the output: figures of prefix_cache, medians of the rounds, each with its spread. What
// was not played is absent. docs/benchmarks/agents.md describes the figures.
func (rep *report) line() bench.Line {
	s, own := rep.settings, compare.PrefixCache.Name
	l := bench.Line{"bench": "agents", "rounds": s.Rounds, "workers": s.Workers, "sessions": s.sessions}
	for name, of := range map[string]func(*result) float64{
		"match_error_points": matchError, "stays_share": stays, "first_token_error_ms": firstToken,
		"not_found_adapter": adapters, "not_found_follow_up": followUps, "not_found_count": counts,
		"not_found_share": func(r *result) float64 { return max(adapters(r), followUps(r)) },
	} {
		l.Figure(name, rep.Spread("", own, of))
	}
	rep.ofPrograms(l, own)
	ours, failed := rep.Of("", own), 0
	for i := range ours {
		failed += ours[i].Failed
	}
	if best := best(&rep.Runs, "", ttft, own); len(ours) > 0 && best != nil {
		ratio := bench.Ratios(bench.Values(ours, ttft), best)
		l.Figure("ttft_vs_best", &ratio)
	}
	l["errors"], l["missed"] = failed, bench.TargetNames(l.Missed(aims))
	return l
}

// ofPrograms puts into the line what the plugin's programs had.
func (rep *report) ofPrograms(l bench.Line, own string) {
	of := &rep.programs
	l.Figure("programs_stays_share", of.Spread(thinking, own, (*figures).staying))
	l.Figure("fairness", of.Spread(saturated, bySession, (*figures).fairness))
	l.Figure("fairness_by_tenant", of.Spread(saturated, own, (*figures).fairness))
	l.Figure("saturated_ttft_vs_tenant", of.Ratio(saturated, bySession, own, (*figures).meanTTFT))
	if ours := of.Of(thinking, own); len(ours) > 0 {
		ratio := bench.Ratios(bench.Values(ours, (*figures).meanTTFT), best(of, thinking, (*figures).meanTTFT, own))
		l.Figure("programs_ttft_vs_best", &ratio)
	}
}

// best returns the lowest figure of each round of a cell among the others.
func best[R any](runs *bench.Runs[R], cell string, of func(*R) float64, own string) (lowest []float64) {
	runs.Each(func(in, contender string, runs []R) {
		for round, x := range bench.Values(runs, of) {
			switch {
			case contender == own || in != cell:
			case round == len(lowest):
				lowest = append(lowest, x)
			default:
				lowest[round] = min(lowest[round], x)
			}
		}
	})
	return lowest
}
