package prefix

import (
	"slices"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
)

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
		return rep.over(workload, ownName, policy, get)
	}
	ours := rep.Of(workload, ownName)
	c := cell{
		kind: kind, Cached: bench.SpreadBy(ours, cached), TTFT: bench.SpreadBy(ours, ttftMean),
		MaxOverMean:   bench.SpreadBy(ours, uneven),
		CachedVsExact: over(exactName, cached), TTFTVsExact: over(exactName, ttftMean),
		ComputedVsExact:  over(exactName, func(r *result) float64 { return 1 - r.cached }),
		CachedVsSGLang:   over(sglangName, cached),
		CachedVsInMemory: rep.over(workload, ownName+redisSuffix, ownName, cached),
	}
	c.TTFTVsBest, _ = rep.againstBest(workload, ttftMean, slices.Min)
	c.P99VsBest, _ = rep.againstBest(workload, ttftP99, slices.Min)
	return c
}

// over is [bench.Runs.Ratio], but nothing over nothing is 1.
func (rep *report) over(workload, policy, over string, get func(*result) float64) *bench.Spread {
	ours, theirs := rep.Of(workload, policy), rep.Of(workload, over)
	if len(ours) == 0 || len(theirs) == 0 {
		return nil
	}
	r := ratios(ours, theirs, get)
	return &r
}

// ratios is [bench.RatioBy], but nothing over nothing is 1.
func ratios(ours, theirs []result, get func(*result) float64) bench.Spread {
	num, den := bench.Values(ours, get), bench.Values(theirs, get)
	for i := range min(len(num), len(den)) {
		if num[i] == 0 && den[i] == 0 {
			num[i], den[i] = 1, 1
		}
	}
	return bench.Ratios(num, den)
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
		most("max_over_mean_max", c.MaxOverMean.Median)
	}
	return l
}
