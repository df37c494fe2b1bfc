package prefix

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result] // by workload
	settings           settings
	workloads          []workload
	contenders         []contender
	sweeps             []string // what exact did with each of its credits, by workload, in words
}

// played returns what is played for the contenders: exact once with each of its credits.
func (rep *report) played() []contender {
	var out []contender
	for _, c := range rep.contenders {
		if c.Name() != exactName {
			out = append(out, c)
			continue
		}
		for _, credit := range rep.settings.credits {
			out = append(out, c.with(credit))
		}
	}
	return out
}

// keep takes the results of one more workload, by what was played. Of exact it keeps those with the credit whose mean
// TTFT is lowest.
func (rep *report) keep(workload string, played []contender, of bench.Runs[result]) {
	var kept []result
	best := math.Inf(1)
	var tried []string
	for _, c := range played {
		runs := of.Of(workload, c.Name())
		if c.credit == 0 {
			rep.Add(workload, c.Name(), runs...)
			continue
		}
		rep.Add(workload, exactName) // its place in the table
		ttft := bench.SpreadBy(runs, ttftMean)
		found := bench.SpreadBy(runs, cached)
		tried = append(tried, fmt.Sprintf("%v: %s ms, %s", c.credit, ttft.Format("%.1f"), found.Format("%.3f")))
		if ttft.Median < best {
			best, kept = ttft.Median, runs
		}
	}
	if kept != nil {
		rep.Add(workload, exactName, kept...)
		rep.sweeps = append(rep.sweeps, fmt.Sprintf(
			"exact on %s: %.1f ms is the best mean TTFT; by credit, with the cached share: %s",
			workload, best, strings.Join(tried, "; ")))
	}
}

func cached(r *result) float64   { return r.Cached }
func uneven(r *result) float64   { return r.uneven }
func ttftMean(r *result) float64 { return bench.MS(r.Summary.TTFT.Mean) }
func ttftP99(r *result) float64  { return bench.MS(r.Summary.TTFT.P99) }
func e2eMean(r *result) float64  { return bench.MS(r.Summary.Latency.Mean) }
func perToken(r *result) float64 { return r.token }
func tokens(r *result) float64   { return float64(r.Summary.Tokens) / r.Summary.Elapsed.Seconds() }
func failed(r *result) float64   { return float64(r.Summary.Failed()) }

var columns = bench.Columns[result]{
	bench.Col("cached share", "%.3f", cached),
	bench.Col("TTFT mean ms", "%.1f", ttftMean),
	bench.Col("p50", "%.1f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P50) }),
	bench.Col("p90", "%.1f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P90) }),
	bench.Col("p99", "%.1f", ttftP99),
	bench.Col("latency mean ms", "%.0f", e2eMean),
	bench.Col("latency p99 ms", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.Latency.P99) }),
	bench.Col("ms per token", "%.2f", perToken),
	bench.Col("tokens/s", "%.0f", tokens),
	bench.Col("errors", "%.0f", failed),
	bench.Col("max/mean per server", "%.2f", uneven),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("workload, policy: median (min..max)")
	t.Head = append(t.Head, "cached, of exact's", "TTFT mean, of exact's")
	rep.Each(func(workload, name string, runs []result) {
		row := columns.Row(runs, workload+", "+name)
		for _, of := range []func(*result) float64{cached, ttftMean} {
			cell := "" // exact was not played
			if s := rep.Ratio(workload, name, exactName, of); s != nil {
				cell = s.Format("%.3f")
			}
			row = append(row, cell)
		}
		t.Add(row...)
	})
	return t
}

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{"every request carries its session in " + scripted.SessionHeader}
	for i := range rep.workloads {
		w := &rep.workloads[i]
		lines = append(lines, fmt.Sprintf("workload %s: %s; %d servers of %s", w.name, w.traffic(), w.servers,
			compare.Describe(w.server)))
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].Name()+": "+rep.contenders[i].Describe())
	}
	lines = append(append(lines, rep.sweeps...), rep.predictionLines()...)
	return append(lines, rep.Notes...)
}

// traffic returns what the workload sends, and how much that is.
func (w *workload) traffic() string {
	how := fmt.Sprintf("%d at once", w.users)
	if w.users == 0 {
		how = fmt.Sprintf("in %.1f s, open loop", w.span.Seconds())
	}
	c := w.capacity
	return fmt.Sprintf("%d %s; %s, which is %.2f of the capacity: %.0f requests/s, %.0f requests in batches",
		w.n, w.about, how, c.load(w), c.rate, c.batch)
}

// predictionLines returns how accurate the contenders' predictions of cached shares were.
func (rep *report) predictionLines() (out []string) {
	rep.Each(func(workload, name string, runs []result) {
		spread := func(get func(*prediction) float64) bench.Spread {
			return bench.SpreadBy(runs, func(r *result) float64 { return get(&r.prediction) })
		}
		if spread(func(p *prediction) float64 { return float64(p.Requests) }).Max == 0 {
			return
		}
		predicted := spread(func(p *prediction) float64 { return p.Predicted })
		reported := spread(func(p *prediction) float64 { return p.Reported })
		off := spread(func(p *prediction) float64 { return p.Off })
		out = append(out, fmt.Sprintf("prediction of %s on %s: cached share predicted %s, reported by the servers %s, "+
			"off by %s of the prompt on average", name, workload, predicted.Format("%.3f"), reported.Format("%.3f"),
			off.Format("%.3f")))
	})
	return out
}

// cell is how prefix_cache did on one workload, at one load. What it is compared with is nil, or 0, if that was not
// played.
type cell struct {
	Cached           bench.Spread  `json:"cached"`
	TTFT             bench.Spread  `json:"ttft_ms"`
	MaxOverMean      bench.Spread  `json:"max_over_mean"`
	CachedVsExact    *bench.Spread `json:"cached_vs_exact,omitempty"`
	ComputedVsExact  *bench.Spread `json:"computed_vs_exact,omitempty"` // prompt tokens that were not cached
	TTFTVsExact      *bench.Spread `json:"ttft_vs_exact,omitempty"`
	CachedVsSGLang   *bench.Spread `json:"cached_vs_sglang,omitempty"`
	CachedVsInMemory *bench.Spread `json:"redis_cached_vs_memory,omitempty"` // with the index in Redis over without
	TTFTVsBest       float64       `json:"ttft_vs_best,omitempty"`
	P99VsBest        float64       `json:"ttft_p99_vs_best,omitempty"`
	E2EVsBest        float64       `json:"e2e_vs_best,omitempty"`
	TPOTVsBest       float64       `json:"tpot_vs_best,omitempty"`
	LMetricWins      []string      `json:"lmetric_wins,omitempty"` // by which figures

	kind string
}

// cells returns those that were played, by the name of the workload.
func (rep *report) cells() map[string]cell {
	out := map[string]cell{}
	for _, w := range rep.workloads {
		if len(rep.Of(w.name, ownName)) > 0 {
			out[w.name] = rep.cell(w.name, w.kind)
		}
	}
	return out
}

// cell returns that of a workload on which prefix_cache was played.
func (rep *report) cell(workload, kind string) cell {
	over := func(policy string, get func(*result) float64) *bench.Spread {
		return rep.Ratio(workload, ownName, policy, get)
	}
	ours := rep.Of(workload, ownName)
	c := cell{
		kind: kind, Cached: bench.SpreadBy(ours, cached), TTFT: bench.SpreadBy(ours, ttftMean),
		MaxOverMean:   bench.SpreadBy(ours, uneven),
		CachedVsExact: over(exactName, cached), TTFTVsExact: over(exactName, ttftMean),
		ComputedVsExact:  over(exactName, func(r *result) float64 { return 1 - r.Cached }),
		CachedVsSGLang:   over(sglangName, cached),
		CachedVsInMemory: rep.Ratio(workload, ownName+redisSuffix, ownName, cached),
	}
	c.TTFTVsBest, _ = rep.againstBest(workload, ttftMean, slices.Min)
	c.P99VsBest, _ = rep.againstBest(workload, ttftP99, slices.Min)
	c.E2EVsBest, _ = rep.againstBest(workload, e2eMean, slices.Min)
	c.TPOTVsBest, _ = rep.againstBest(workload, perToken, slices.Min)
	c.LMetricWins = rep.lmetricWins(workload)
	return c
}

// lmetricWins returns by which figures LMetric is better than prefix_cache on a workload by more than noise: in every
// round, and by more than a hundredth.
func (rep *report) lmetricWins(workload string) (by []string) {
	const least = 1.01
	for _, f := range []struct {
		name string
		get  func(*result) float64
	}{{"e2e", e2eMean}, {"ttft", ttftMean}, {"ttft_p99", ttftP99}, {"tpot", perToken}} {
		if s := rep.Ratio(workload, ownName, lmetricName, f.get); s != nil && s.Min > 1 && s.Median > least {
			by = append(by, f.name)
		}
	}
	return by
}

// lmetricWinsIn returns in how many cells LMetric wins by the mean latency or by the mean TTFT.
func lmetricWinsIn(cells map[string]cell) (n float64) {
	for _, c := range cells {
		if slices.Contains(c.LMetricWins, "e2e") || slices.Contains(c.LMetricWins, "ttft") {
			n++
		}
	}
	return n
}

// worstOf returns the figures of the last line that are the worst of many workloads, of those that were measured.
func worstOf(cells map[string]cell) bench.Line {
	l := bench.Line{}
	worst := func(name string, of *bench.Spread, most bool) {
		if of != nil {
			l.Worst(name, of.Median, most)
		}
	}
	most := func(name string, v float64) {
		if v > 0 {
			l.Worst(name, v, true)
		}
	}
	for _, c := range cells {
		worst("cached_vs_exact_min", c.CachedVsExact, false)
		if strings.HasPrefix(c.kind, "agents") {
			worst("agents_cached_vs_exact", c.CachedVsExact, false)
			worst("agents_computed_vs_exact", c.ComputedVsExact, true)
		}
		if c.kind == traceName || c.kind == middleName {
			worst("trace_cached_vs_sglang", c.CachedVsSGLang, false)
		}
		most("ttft_vs_best_max", c.TTFTVsBest)
		most("ttft_p99_vs_best_max", c.P99VsBest)
		most("e2e_vs_best_max", c.E2EVsBest)
		most("tpot_vs_best_max", c.TPOTVsBest)
		most("max_over_mean_max", c.MaxOverMean.Median)
	}
	return l
}

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
	{Name: "e2e_vs_best_max", Limit: tied},
	{Name: "tpot_vs_best_max", Limit: tied},
	{Name: "lmetric_wins", Limit: 0},
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
	l["errors"] = rep.Count(func(r *result) int { return r.Summary.Failed() })
	l["cells"], l["prediction"] = cells, rep.lastPredictions()
	if slices.ContainsFunc(rep.contenders, func(c contender) bool { return c.Name() == lmetricName }) {
		l["lmetric_wins"] = lmetricWinsIn(cells)
	}
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
	if len(others) == 0 || best(others) == 0 { // not played, or without an answer of several tokens
		return 0, false
	}
	return bench.SpreadBy(rep.Of(load, ownName), get).Median / best(others), true
}
