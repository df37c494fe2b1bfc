package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is the output of the benchmark.
type report struct {
	settings settings
	results  [][]compare.Result // by policy, then by round
	apart    [][]float64        // under a herd: the most less the least in flight, by policy of it, then by round
}

var columns = bench.Columns[compare.Result]{
	bench.Col("p50 ms", "%.0f", func(r *compare.Result) float64 { return bench.MS(r.Summary.Latency.P50) }),
	bench.Col("p90 ms", "%.0f", func(r *compare.Result) float64 { return bench.MS(r.Summary.Latency.P90) }),
	bench.Col("p99 ms", "%.0f", func(r *compare.Result) float64 { return bench.MS(r.Summary.Latency.P99) }),
	bench.Col("queued request·s", "%.1f", func(r *compare.Result) float64 { return r.Queued }),
	bench.Col("queued beside an idle server, % of requests", "%.1f", func(r *compare.Result) float64 {
		return bench.Percent(r.Placement.BesideIdle, r.Placement.Requests)
	}),
	bench.Col("… beside a free slot, %", "%.1f", func(r *compare.Result) float64 {
		return bench.Percent(r.Placement.BesideFree, r.Placement.Requests)
	}),
	bench.Col("imbalance", "%.2f", func(r *compare.Result) float64 { return r.Imbalance }),
	bench.Col("errors", "%.0f", func(r *compare.Result) float64 { return float64(r.Summary.Failed()) }),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("median (min..max)")
	for p, policy := range rep.settings.policies() {
		t.Add(columns.Row(rep.results[p], policy.Name)...)
	}
	return t
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	c := server()
	lines := []string{
		"machine: " + bench.Machine(),
		fmt.Sprintf("gateways: %d in the shipped plain layout, %d workers each, the same processes for all runs, "+
			"switched by configuration",
			max(1, s.gateways), s.workers),
		fmt.Sprintf("servers: 8 simulated, %d sequences at once, no limit on the queue, speeds %v (not "+
			"known to any policy)", c.MaxNumSeqs, s.speeds()),
		fmt.Sprintf("engine at speed 1: prefill %v ms + %v ms a token, decode step %v ms + %v ms a sequence",
			c.Tuning.PrefillOverheadMS, c.Tuning.PrefillTokenMS, c.Tuning.DecodeStepMS, c.Tuning.DecodeSeqMS),
		fmt.Sprintf("traffic: open loop, Poisson, %.0f %% of capacity, %v a run, %d rounds with seeds from %d; "+
			"prompt %+v, answer %+v tokens",
			100*s.load, s.span, s.rounds, s.seed, workload(0).Prompt, workload(0).Output),
	}
	for _, p := range s.policies() {
		lines = append(lines, p.Name+": "+p.Describe())
	}
	if len(rep.apart) > 0 {
		lines = append(lines, rep.herdLine())
	}
	return lines
}

// publish prints the report, and saves it in the file of the settings, if any.
func (rep *report) publish(w io.Writer) error {
	return bench.Publish(w, rep.settings.markdown, rep.configuration(), rep.table(), rep.line())
}

// result is the last line of the output. Ratios are Warmgate's p99 over the native policy's, round by round.
type result struct {
	Bench           string        `json:"bench"`
	RoundRobin      *float64      `json:"p99_vs_round_robin,omitempty"`
	LeastRequest    float64       `json:"p99_vs_least_request"`
	Alone           *float64      `json:"p99_vs_alone,omitempty"` // Warmgate in each gateway for itself
	RoundRobinAll   *bench.Spread `json:"p99_vs_round_robin_spread,omitempty"`
	LeastRequestAll bench.Spread  `json:"p99_vs_least_request_spread"`
	AloneAll        *bench.Spread `json:"p99_vs_alone_spread,omitempty"`
	Herd            *bench.Spread `json:"herd_apart,omitempty"`         // most less least in flight
	HerdPatient     *bench.Spread `json:"herd_apart_patient,omitempty"` // with time enough for all to reserve in Redis
	Queued          bench.Spread  `json:"queued_request_seconds"`
	BesideIdle      bench.Spread  `json:"queued_beside_idle_percent"`
	BesideFree      bench.Spread  `json:"queued_beside_free_percent"`
	WhileIdle       bench.Spread  `json:"queueing_while_idle_seconds"`
	Rounds          int           `json:"rounds"`
	Gateways        int           `json:"gateways"`
	Workers         int           `json:"workers"`
	Load            float64       `json:"load"`
	Even            bool          `json:"even"`
	Met             bool          `json:"target_met"` // with one gateway: at most 1/3 of round_robin's p99 and below least_request's, in every round; else half of that, and no herd leaves servers more than 1 apart
}

func (rep *report) line() result {
	own := rep.own()
	spread := func(get func(*compare.Result) float64) bench.Spread { return bench.SpreadBy(rep.results[own], get) }
	r := result{
		Bench:  "leastrequest",
		Queued: spread(func(r *compare.Result) float64 { return r.Queued }),
		BesideIdle: spread(func(r *compare.Result) float64 {
			return bench.Percent(r.Placement.BesideIdle, r.Placement.Requests)
		}),
		BesideFree: spread(func(r *compare.Result) float64 {
			return bench.Percent(r.Placement.BesideFree, r.Placement.Requests)
		}),
		WhileIdle: spread(func(r *compare.Result) float64 { return r.Fleet.QueueingWhileIdle }),
		Rounds:    rep.settings.rounds, Gateways: max(1, rep.settings.gateways), Workers: rep.settings.workers,
		Load: rep.settings.load, Even: rep.settings.even,
	}
	lr, _ := rep.against(compare.LeastRequest)
	r.LeastRequest, r.LeastRequestAll = lr.Median, lr
	if rr, ok := rep.against(compare.RoundRobin); ok {
		r.RoundRobin, r.RoundRobinAll = &rr.Median, &rr
		r.Met = rr.Max <= 1.0/3 && lr.Max < 1
		return r
	}
	rep.addGateways(&r)
	return r
}

// addGateways fills in the figures of several gateways, and whether they meet the target.
func (rep *report) addGateways(r *result) {
	alone, _ := rep.against(compare.Warmgate)
	r.Alone, r.AloneAll = &alone.Median, &alone
	r.Met = r.LeastRequest <= 0.5
	if n := len(rep.apart); n > 0 {
		shared, patient := bench.SpreadOf(rep.apart[n-2]), bench.SpreadOf(rep.apart[n-1])
		r.Herd, r.HerdPatient = &shared, &patient
		r.Met = r.Met && patient.Max <= 1
	}
}

// own returns the place of the policy that is compared with the others: the shared view of several gateways, else
// Warmgate.
func (rep *report) own() int {
	want := compare.Warmgate
	if rep.settings.gateways > 1 {
		want = compare.Shared
	}
	return slices.Index(rep.settings.policies(), want)
}

// against returns the ratio of our p99 to that of another policy, round by round; ok is false when that was not played.
func (rep *report) against(other compare.Policy) (ratio bench.Spread, ok bool) {
	at := slices.Index(rep.settings.policies(), other)
	if at < 0 {
		return bench.Spread{}, false
	}
	p99 := func(r *compare.Result) float64 { return float64(r.Summary.Latency.P99) }
	return bench.RatioBy(rep.results[rep.own()], rep.results[at], p99), true
}
