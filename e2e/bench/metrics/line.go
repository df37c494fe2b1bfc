package main

import "github.com/warmgate/warmgate/e2e/bench"

// The targets.
const (
	targetRatio = 0.5 // p99 of TTFT over native least_request's, in the median
	targetHerd  = 0.3 // coefficient of variation of picks, in the median
)

// line is the last line of the output: figures of endpoint_metrics, medians of the rounds. Ratios are of the p99 of
// TTFT over that of another policy, round by round. What was not played is absent.
type line struct {
	Bench          string        `json:"bench"`
	LeastRequest   *float64      `json:"ttft_p99_vs_least_request,omitempty"`
	Counts         *float64      `json:"ttft_p99_vs_global_least_request,omitempty"`
	Uncorrected    *float64      `json:"ttft_p99_vs_uncorrected,omitempty"`
	Tree           *float64      `json:"ttft_p99_vs_filter_tree,omitempty"`
	LeastReqAll    *bench.Spread `json:"ttft_p99_vs_least_request_spread,omitempty"`
	CountsAll      *bench.Spread `json:"ttft_p99_vs_global_least_request_spread,omitempty"`
	UncorrectedAll *bench.Spread `json:"ttft_p99_vs_uncorrected_spread,omitempty"`
	TreeAll        *bench.Spread `json:"ttft_p99_vs_filter_tree_spread,omitempty"`
	Herd           *float64      `json:"herd_cv,omitempty"`
	HerdAll        *bench.Spread `json:"herd_cv_spread,omitempty"`
	HerdChance     *bench.Spread `json:"herd_cv_by_chance,omitempty"`
	HerdExcess     *bench.Spread `json:"herd_cv_beyond_chance,omitempty"`
	TTFT           *bench.Spread `json:"ttft_p99_ms,omitempty"`
	Queued         *bench.Spread `json:"queued_percent,omitempty"`
	Preemptions    *bench.Spread `json:"preemptions,omitempty"`
	Rounds         int           `json:"rounds"`
	Workers        int           `json:"workers"`
	Load           float64       `json:"load"`
	Met            bool          `json:"target_met"` // p99 of TTFT at most half of native least_request's, and no herd
}

func (rep *report) line() line {
	l := line{Bench: "metrics", Rounds: rep.settings.rounds, Workers: rep.settings.workers, Load: rep.settings.load}
	own := place(rep.policies, ownName)
	if own < 0 {
		return l
	}
	spread := func(get func(*result) float64) *bench.Spread {
		s := bench.SpreadBy(rep.results[own], get)
		return &s
	}
	l.LeastRequest, l.LeastReqAll = rep.against(nativeName)
	l.Counts, l.CountsAll = rep.against(countsName)
	l.Uncorrected, l.UncorrectedAll = rep.against(uncorrectedName)
	l.Tree, l.TreeAll = rep.against(treeName)
	l.HerdAll = spread(herdCV)
	l.Herd = &l.HerdAll.Median
	l.HerdChance = spread(func(r *result) float64 { return r.herd.Chance })
	l.HerdExcess = spread(func(r *result) float64 { return r.herd.excess() })
	l.TTFT, l.Queued, l.Preemptions = spread(ttftP99), spread((*result).queuedShare), spread(preemptions)
	l.Met = l.LeastRequest != nil && *l.LeastRequest <= targetRatio && *l.Herd <= targetHerd
	return l
}

// against returns the ratio of our p99 of TTFT to that of another policy: its median, and all of it; nil if that was
// not played.
func (rep *report) against(name string) (*float64, *bench.Spread) {
	own, other := place(rep.policies, ownName), place(rep.policies, name)
	if other < 0 {
		return nil, nil
	}
	s := bench.RatioBy(rep.results[own], rep.results[other], ttftP99)
	return &s.Median, &s
}
