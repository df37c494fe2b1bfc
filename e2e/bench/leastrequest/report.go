package main

import (
	"fmt"
	"io"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is everything the benchmark says.
type report struct {
	settings settings
	results  [][]compare.Result // by policy, then by round
}

func newReport(s settings, results [][]compare.Result) *report {
	return &report{settings: s, results: results}
}

// column is one measured quantity.
type column struct {
	head string
	verb string
	get  func(*compare.Result) float64
}

var columns = []column{
	{"p50 ms", "%.0f", func(r *compare.Result) float64 { return ms(r.Summary.Latency.P50) }},
	{"p90 ms", "%.0f", func(r *compare.Result) float64 { return ms(r.Summary.Latency.P90) }},
	{"p99 ms", "%.0f", func(r *compare.Result) float64 { return ms(r.Summary.Latency.P99) }},
	{"queued request·s", "%.1f", func(r *compare.Result) float64 { return r.Queued }},
	{"queued beside an idle server, % of requests", "%.1f", func(r *compare.Result) float64 {
		return percent(r.Placement.BesideIdle, r.Placement.Requests)
	}},
	{"… beside a free slot, %", "%.1f", func(r *compare.Result) float64 {
		return percent(r.Placement.BesideFree, r.Placement.Requests)
	}},
	{"imbalance", "%.2f", func(r *compare.Result) float64 { return r.Imbalance }},
	{"errors", "%.0f", func(r *compare.Result) float64 { return float64(r.Summary.Failed()) }},
}

// values returns one quantity of one policy, round by round.
func (rep *report) values(policy int, get func(*compare.Result) float64) []float64 {
	out := make([]float64, len(rep.results[policy]))
	for i := range out {
		out[i] = get(&rep.results[policy][i])
	}
	return out
}

func (rep *report) table() *bench.Table {
	t := &bench.Table{Head: []string{"median (min..max)"}}
	for _, c := range columns {
		t.Head = append(t.Head, c.head)
	}
	for p, policy := range rep.settings.policies() {
		row := []string{policy.Name}
		for _, c := range columns {
			row = append(row, bench.SpreadOf(rep.values(p, c.get)).Format(c.verb))
		}
		t.Add(row...)
	}
	return t
}

// configuration says what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	c := server()
	lines := []string{
		"machine: " + bench.Machine(),
		fmt.Sprintf("gateways: %d in the shipped plain layout, %d workers each, the same processes for all runs, switched by configuration",
			max(1, s.gateways), s.workers),
		fmt.Sprintf("servers: 8 simulated, %d sequences at once, no limit on the queue, speeds %v (not told to any policy)", c.MaxNumSeqs, s.speeds()),
		fmt.Sprintf("engine at speed 1: prefill %v ms + %v ms a token, decode step %v ms + %v ms a sequence",
			c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS, c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS),
		fmt.Sprintf("traffic: open loop, Poisson, %.0f %% of capacity, %v a run, %d rounds with seeds from %d; prompt %+v, answer %+v tokens",
			100*s.load, s.span, s.rounds, s.seed, workload(0).Prompt, workload(0).Output),
	}
	for _, p := range s.policies() {
		lines = append(lines, p.Name+": "+p.Describe())
	}
	return lines
}

// publish prints the report, and saves it where the settings say.
func (rep *report) publish(w io.Writer) error {
	return bench.Publish(w, rep.settings.markdown, rep.configuration(), rep.table(), rep.line())
}

// result is the last line of the output. Ratios are Warmgate's p99 over the native policy's, round by round.
type result struct {
	Bench           string       `json:"bench"`
	RoundRobin      float64      `json:"p99_vs_round_robin"`
	LeastRequest    float64      `json:"p99_vs_least_request"`
	RoundRobinAll   bench.Spread `json:"p99_vs_round_robin_spread"`
	LeastRequestAll bench.Spread `json:"p99_vs_least_request_spread"`
	Queued          bench.Spread `json:"queued_request_seconds"`
	BesideIdle      bench.Spread `json:"queued_beside_idle_percent"`
	BesideFree      bench.Spread `json:"queued_beside_free_percent"`
	WhileIdle       bench.Spread `json:"queueing_while_idle_seconds"`
	Rounds          int          `json:"rounds"`
	Gateways        int          `json:"gateways"`
	Workers         int          `json:"workers"`
	Load            float64      `json:"load"`
	Even            bool         `json:"even"`
	Met             bool         `json:"target_met"` // see targets
}

func (rep *report) line() result {
	p99 := func(r *compare.Result) float64 { return float64(r.Summary.Latency.P99) }
	own := rep.values(2, p99)
	rr, lr := bench.Ratios(own, rep.values(0, p99)), bench.Ratios(own, rep.values(1, p99))
	spread := func(get func(*compare.Result) float64) bench.Spread { return bench.SpreadOf(rep.values(2, get)) }
	return result{
		Bench:      "leastrequest",
		RoundRobin: rr.Median, RoundRobinAll: rr,
		LeastRequest: lr.Median, LeastRequestAll: lr,
		Queued:     spread(func(r *compare.Result) float64 { return r.Queued }),
		BesideIdle: spread(func(r *compare.Result) float64 { return percent(r.Placement.BesideIdle, r.Placement.Requests) }),
		BesideFree: spread(func(r *compare.Result) float64 { return percent(r.Placement.BesideFree, r.Placement.Requests) }),
		WhileIdle:  spread(func(r *compare.Result) float64 { return r.Fleet.QueueingWhileIdle }),
		Rounds:     rep.settings.rounds, Gateways: max(1, rep.settings.gateways), Workers: rep.settings.workers, Load: rep.settings.load, Even: rep.settings.even,
		Met: rep.settings.met(rr, lr),
	}
}

// met says whether the targets are: with one gateway p99 is at most a third of round_robin's and below least_request's, in
// every round; with several it is at most half of that of least_request, which each gateway does alone.
func (s settings) met(roundRobin, leastRequest bench.Spread) bool {
	if s.gateways > 1 {
		return leastRequest.Median <= 0.5
	}
	return roundRobin.Max <= 1.0/3 && leastRequest.Max < 1
}
