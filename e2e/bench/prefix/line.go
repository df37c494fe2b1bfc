package prefix

import (
	"maps"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// targets are of medians.
var targets = []bench.Target{
	{Name: "sessions_ttft_vs_round_robin", Limit: 0.5},
	{Name: "sessions_cached", Limit: 0.80, Least: true},
	{Name: "trees_cached", Limit: 0.88, Least: true},
	{Name: "shared_prompt_ttft_p99_vs_affinity", Limit: 0.55},
	{Name: "shared_prompt_cached_over_affinity", Limit: -0.05, Least: true},
	{Name: "trace_max_over_mean", Limit: 1.3},
	{Name: "forty_by_five_cached", Limit: 0.873, Least: true},
	{Name: "forty_by_five_max_over_mean", Limit: 1.3},
	{Name: "forty_by_five_ttft_vs_vllm_router", Limit: 0.95},
	{Name: "agents_cached_vs_exact", Limit: 0.95, Least: true},
	{Name: "cached_vs_exact_min", Limit: 0.95, Least: true},
	{Name: "ttft_vs_best_max", Limit: tied},
	{Name: "ttft_p99_vs_best_max", Limit: tied},
	{Name: "max_over_mean_max", Limit: 1.3},
}

// tied is how many times worse than the best of the others a figure may be and still count as equal.
const tied = 1.05

// line returns the last line of the output. Figures are Warmgate's prefix_cache, medians of the rounds; ratios to one
// other policy are formed round by round. A workload counts once for each load that it was played at. What was not
// played is absent. docs/benchmarks/prefix.md describes the figures.
func (rep *report) line() bench.Line {
	s, cells := rep.settings, rep.cells()
	l := worstOf(cells)
	l["bench"], l["rounds"], l["workers"], l["seed"] = "prefix", s.Rounds, s.Workers, s.Seed
	l["errors"] = rep.Count(func(r *result) int { return r.summary.Failed() })
	l["cells"], l["prediction"] = cells, rep.lastPredictions()
	rep.measure(l)
	p99, rate := rep.byWorkloadAgainstBest()
	l["ttft_p99_vs_best"], l["tokens_vs_best"] = p99, rate
	missed := bench.TargetNames(l.Missed(targets))
	for _, load := range slices.Sorted(maps.Keys(p99)) {
		if p99[load] > tied {
			missed = append(missed, "ttft_p99_vs_best of "+load)
		}
		if rate[load] < 1/tied {
			missed = append(missed, "tokens_vs_best of "+load)
		}
	}
	l["missed"], l["target_met"] = missed, len(missed) == 0 && l.Meets(targets) && len(p99) == len(rep.workloads)
	return l
}

// byWorkloadAgainstBest returns againstBest for the p99 of TTFT and for the rate of tokens, by workload.
func (rep *report) byWorkloadAgainstBest() (p99, rate map[string]float64) {
	p99, rate = map[string]float64{}, map[string]float64{}
	for _, w := range rep.workloads {
		if len(rep.Of(w.name, ownName)) == 0 {
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
		if ours := rep.Of(w.name, ownName); len(ours) > 0 {
			out[w.name] = ours[len(ours)-1].prediction
		}
	}
	return out
}

// measure adds the figures of single workloads, each with its spread.
func (rep *report) measure(l bench.Line) {
	over := func(name, load, other string, get func(*result) float64) {
		l.Figure(name, rep.Ratio(load, ownName, other, get))
	}
	over("sessions_ttft_vs_round_robin", "sessions", roundRobinName, ttftMean)
	l.Figure("sessions_cached", rep.Spread("sessions", ownName, cached))
	for _, load := range []string{"trees2", "trees24"} { // the lower counts
		found := rep.Spread(load, ownName, cached)
		if found != nil && !(found.Median >= l.Value("trees_cached")) {
			l.Figure("trees_cached", found)
		}
	}
	over("shared_prompt_ttft_p99_vs_affinity", "shared", affinityName, ttftP99)
	if ours, theirs := rep.Of("shared", ownName), rep.Of("shared", affinityName); len(ours) > 0 && len(theirs) > 0 {
		less := differences(bench.Values(ours, cached), bench.Values(theirs, cached))
		l.Figure("shared_prompt_cached_over_affinity", &less)
	}
	l.Figure("trace_max_over_mean", rep.Spread("trace", ownName, uneven))
	l.Figure("forty_by_five_cached", rep.Spread("forty", ownName, cached))
	l.Figure("forty_by_five_max_over_mean", rep.Spread("forty", ownName, uneven))
	over("forty_by_five_ttft_vs_vllm_router", "forty", vllmRouterName, ttftMean)
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
	for i := range rep.contenders {
		c := &rep.contenders[i]
		if m := rep.Median(load, c.Name(), get); m != nil && c.Name() != ownName && c.Name() != exactName && !c.Added {
			others = append(others, *m)
		}
	}
	if len(others) == 0 {
		return 0, false
	}
	return bench.SpreadBy(rep.Of(load, ownName), get).Median / best(others), true
}
