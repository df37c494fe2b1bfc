package metrics

import "github.com/warmgate/warmgate/e2e/bench"

// targets are of medians.
var targets = []bench.Target{
	{Name: "ttft_p99_vs_least_request", Limit: 0.5},
	{Name: "herd_cv", Limit: 0.3},
}

// line returns the last line of the output: figures of endpoint_metrics, medians of the rounds. Ratios are of the p99
// of TTFT over that of another policy, round by round. What was not played is absent. docs/benchmarks/metrics.md
// describes the figures.
func (rep *report) line() bench.Line {
	s := rep.settings
	l := bench.Line{"bench": "metrics", "rounds": s.Rounds, "workers": s.Workers, "load": s.load}
	l.Figure("ttft_p99_vs_least_request", rep.Ratio("", ownName, nativeName, ttftP99))
	l.Figure("ttft_p99_vs_global_least_request", rep.Ratio("", ownName, countsName, ttftP99))
	own := func(of func(*result) float64) *bench.Spread { return rep.Spread("", ownName, of) }
	l.Figure("herd_cv", own(herdCV))
	l.Spread("herd_cv_by_chance", own(func(r *result) float64 { return r.herd.Chance }))
	l.Spread("herd_cv_beyond_chance", own(func(r *result) float64 { return r.herd.excess() }))
	l.Spread("ttft_p99_ms", own(ttftP99))
	l.Spread("queued_percent", own((*result).queuedShare))
	l.Spread("preemptions", own(preemptions))
	l["target_met"] = l.Meets(targets)
	return l
}
