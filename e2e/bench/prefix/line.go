package main

import (
	"maps"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// target is the required value of a figure of the last line.
type target struct {
	name  string
	limit float64
	least bool // at least the limit; else at most
}

var targets = []target{
	{"sessions_ttft_vs_round_robin", 0.5, false},
	{"sessions_cached", 0.80, true},
	{"trees_cached", 0.88, true},
	{"shared_prompt_ttft_p99_vs_affinity", 0.55, false},
	{"shared_prompt_cached_over_affinity", -0.05, true},
	{"trace_max_over_mean", 1.3, false},
	{"forty_by_five_cached", 0.873, true},
	{"forty_by_five_max_over_mean", 1.3, false},
	{"forty_by_five_ttft_vs_vllm_router", 0.95, false},
	{"agents_cached_vs_exact", 0.95, true},
	{"cached_vs_exact_min", 0.95, true},
	{"ttft_vs_best_max", tied, false},
	{"ttft_p99_vs_best_max", tied, false},
	{"max_over_mean_max", 1.3, false},
}

// tied is how many times worse than the best of the others a figure may be and still count as equal.
const tied = 1.05

// line returns the last line of the output. Figures are Warmgate's prefix_cache, medians of the rounds; ratios to one
// other policy are formed round by round. A workload counts once for each load that it was played at. What was not
// played is absent.
//
//	sessions_ttft_vs_round_robin        mean TTFT over round_robin's
//	sessions_cached, trees_cached       cached share; of the two kinds of trees the lower
//	shared_prompt_ttft_p99_vs_affinity  p99 of TTFT over block_xor's
//	shared_prompt_cached_over_affinity  cached share less block_xor's
//	trace_max_over_mean                 requests of the busiest server over the mean
//	forty_by_five_cached, forty_by_five_max_over_mean
//	forty_by_five_ttft_vs_vllm_router   mean TTFT over vllm-router's
//	*_spread                            median, smallest and largest of each of these
//	cells                               all below by workload, see cell
//	agents_cached_vs_exact              cached share over exact's, the least of the agents
//	agents_computed_vs_exact            share that was not cached over exact's, the most of the agents
//	cached_vs_exact_min                 cached share over exact's, the least of all workloads
//	ttft_vs_best_max                    mean TTFT over that of the best of the others, the most of all workloads
//	ttft_p99_vs_best_max                the same with p99
//	max_over_mean_max                   requests of the busiest server over the mean, the most of all workloads
//	trace_cached_vs_sglang              cached share over sglang-router's, the least of the replays
//	ttft_p99_vs_best, tokens_vs_best    by workload: median over the best median of the others
//	prediction                          by workload, of the last round
//	missed                              targets that were measured and not met
//	target_met                          whether all were measured and met
func (rep *report) line() map[string]any {
	out := map[string]any{
		"bench": "prefix", "rounds": rep.settings.rounds, "workers": rep.settings.workers, "seed": rep.settings.seed,
		"errors": rep.errors(),
	}
	figures := map[string]float64{}
	for name, spread := range rep.measures() {
		out[name], out[name+"_spread"], figures[name] = spread.Median, spread, spread.Median
	}
	cells := rep.cells()
	for name, worst := range worstOf(cells) {
		out[name], figures[name] = worst, worst
	}
	p99, rate := rep.byWorkloadAgainstBest()
	out["cells"], out["ttft_p99_vs_best"], out["tokens_vs_best"] = cells, p99, rate
	out["prediction"] = rep.lastPredictions()
	missed := missedTargets(figures, p99, rate)
	out["missed"] = missed
	out["target_met"] = len(missed) == 0 && met(figures) == len(targets) && len(p99) == len(rep.workloads)
	return out
}

// byWorkloadAgainstBest returns againstBest for the p99 of TTFT and for the rate of tokens, by workload.
func (rep *report) byWorkloadAgainstBest() (p99, rate map[string]float64) {
	p99, rate = map[string]float64{}, map[string]float64{}
	for _, w := range rep.workloads {
		if len(rep.rounds(w.name, ownName)) == 0 {
			continue
		}
		if v, ok := rep.againstBest(w.name, ttftP99, slices.Min); ok {
			p99[w.name] = v
			rate[w.name], _ = rep.againstBest(w.name, tokens, slices.Max)
		}
	}
	return p99, rate
}

// lastPredictions returns the predictions of the last round by workload.
func (rep *report) lastPredictions() map[string]prediction {
	out := map[string]prediction{}
	for _, w := range rep.workloads {
		if ours := rep.rounds(w.name, ownName); len(ours) > 0 {
			out[w.name] = ours[len(ours)-1].prediction
		}
	}
	return out
}

// met counts the targets that were measured.
func met(figures map[string]float64) int {
	n := 0
	for _, t := range targets {
		if _, ok := figures[t.name]; ok {
			n++
		}
	}
	return n
}

// measures returns the figures of the last line that were measured, by name.
func (rep *report) measures() map[string]bench.Spread {
	out := map[string]bench.Spread{}
	alone := func(name, load string, get func(*result) float64) {
		if ours := rep.rounds(load, ownName); len(ours) > 0 {
			out[name] = bench.SpreadBy(ours, get)
		}
	}
	against := func(name, load, other string, get func(*result) float64, compared func(a, b []float64) bench.Spread) {
		ours, theirs := rep.rounds(load, ownName), rep.rounds(load, other)
		if len(ours) > 0 && len(theirs) > 0 {
			out[name] = compared(bench.Values(ours, get), bench.Values(theirs, get))
		}
	}
	against("sessions_ttft_vs_round_robin", "sessions", roundRobinName, ttftMean, bench.Ratios)
	alone("sessions_cached", "sessions", cached)
	alone("trees_cached", "trees2", cached)
	lower := out["trees_cached"]
	if alone("trees_cached", "trees24", cached); lower.Median > 0 && lower.Median < out["trees_cached"].Median {
		out["trees_cached"] = lower
	}
	against("shared_prompt_ttft_p99_vs_affinity", "shared", affinityName, ttftP99, bench.Ratios)
	against("shared_prompt_cached_over_affinity", "shared", affinityName, cached, differences)
	alone("trace_max_over_mean", "trace", uneven)
	alone("forty_by_five_cached", "forty", cached)
	alone("forty_by_five_max_over_mean", "forty", uneven)
	against("forty_by_five_ttft_vs_vllm_router", "forty", vllmRouterName, ttftMean, bench.Ratios)
	return out
}

// differences subtracts paired measurements run by run.
func differences(a, b []float64) bench.Spread {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] - b[i]
	}
	return bench.SpreadOf(out)
}

// againstBest divides our median by the best one of the others, if there are any: the policies of Envoy, those of other
// projects, and global_least_request.
func (rep *report) againstBest(
	load string, get func(*result) float64, best func([]float64) float64,
) (ratio float64, ok bool) {
	var others []float64
	for _, c := range rep.contenders {
		if c.name != ownName && c.name != exactName && !c.added {
			others = append(others, bench.SpreadBy(rep.rounds(load, c.name), get).Median)
		}
	}
	if len(others) == 0 {
		return 0, false
	}
	return bench.SpreadBy(rep.rounds(load, ownName), get).Median / best(others), true
}

// missedTargets names what was measured and misses its target.
func missedTargets(figures map[string]float64, p99, rate map[string]float64) []string {
	missed := []string{}
	for _, t := range targets {
		m, ok := figures[t.name]
		if ok && (t.least && m < t.limit || !t.least && m > t.limit) {
			missed = append(missed, t.name)
		}
	}
	for _, load := range slices.Sorted(maps.Keys(p99)) {
		if p99[load] > tied {
			missed = append(missed, "ttft_p99_vs_best of "+load)
		}
		if rate[load] < 1/tied {
			missed = append(missed, "tokens_vs_best of "+load)
		}
	}
	return missed
}

// errors counts the requests of all runs that failed.
func (rep *report) errors() int {
	n := 0
	for _, byContender := range rep.results {
		for _, rounds := range byContender {
			for i := range rounds {
				n += rounds[i].summary.Failed()
			}
		}
	}
	return n
}
