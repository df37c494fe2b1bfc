package main

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is the output of the benchmark.
type report struct {
	settings   settings
	notes      []string
	work       *workload // of the first round
	contenders []contender
	results    [][]result // by contender, then by round
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

func (rep *report) table() *bench.Table {
	t := columns.Table("contender: median (min..max)")
	for i := range rep.contenders {
		t.Add(columns.Row(rep.results[i], rep.contenders[i].title())...)
	}
	return t
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateway share it",
		fmt.Sprintf("gateway: the shipped plain layout, %d workers, the same process for all contenders, switched "+
			"by configuration; %d rounds with seeds from %d; caches are emptied before each run",
			s.workers, s.rounds, s.seed),
		rep.work.describe(s.users),
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].describe())
	}
	return append(lines, rep.notes...)
}

// aims of the last line: most of each, or least.
var aims = []struct {
	name  string
	limit float64
	least bool
}{
	{"match_error_points", 10, false},
	{"stays_share", 0.95, true},
	{"ttft_vs_best", 1.05, false}, // as good as the best, within what two runs differ by
	{"not_found_share", 0.02, false},
}

// line returns the last line of the output: figures of prefix_cache, medians of the rounds, each with its spread. What
// was not played is absent.
//
//	match_error_points    difference of expected and reported cached shares, mean weighted by prompt tokens
//	stays_share           share of the turns after the first at the server of the turn before
//	ttft_vs_best          mean TTFT over the lowest of the others in the same round
//	not_found_share       share of requests for the adapter, or of follow-ups, that got 404: the higher one
//	not_found_adapter, not_found_follow_up, not_found_count  each of them, and that of counts of tokens
//	first_token_error_ms  for how long after the first token, or before it, it is taken for come
//	errors                turns of prefix_cache that failed or could not be sent, in all rounds
//	missed                aims that were measured and not met
func (rep *report) line() map[string]any {
	s := rep.settings
	failed, missed := 0, []string{}
	out := map[string]any{"bench": "agents", "rounds": s.rounds, "workers": s.workers, "sessions": s.sessions}
	var ours []result
	var others [][]result
	for i := range rep.results {
		if rep.contenders[i].title() == compare.PrefixCache.Name {
			ours = rep.results[i]
			for k := range ours {
				failed += ours[k].Failed
			}
		} else {
			others = append(others, rep.results[i])
		}
	}
	figures := map[string]bench.Spread{}
	if len(ours) > 0 {
		for name, of := range map[string]func(*result) float64{
			"match_error_points": matchError, "stays_share": stays, "first_token_error_ms": firstToken,
			"not_found_adapter": adapters, "not_found_follow_up": followUps, "not_found_count": counts,
			"not_found_share": func(r *result) float64 { return max(adapters(r), followUps(r)) },
		} {
			figures[name] = bench.SpreadBy(ours, of)
		}
		if len(others) > 0 {
			figures["ttft_vs_best"] = bench.Ratios(bench.Values(ours, ttft), best(others))
		}
	}
	for name, spread := range figures {
		out[name], out[name+"_spread"] = spread.Median, spread
	}
	for _, a := range aims {
		if f, ok := figures[a.name]; ok && (a.least && f.Median < a.limit || !a.least && f.Median > a.limit) {
			missed = append(missed, a.name)
		}
	}
	out["errors"], out["missed"] = failed, missed
	return out
}

// best returns the lowest mean TTFT of each round.
func best(others [][]result) []float64 {
	var out []float64
	for round := range others[0] {
		of := make([]float64, 0, len(others))
		for i := range others {
			of = append(of, ttft(&others[i][round]))
		}
		out = append(out, slices.Min(of))
	}
	return out
}
