// Package metrics compares ways to balance unequal model servers by their metrics with ways that do not use these:
// Envoy's native least_request, Warmgate's global_least_request and its endpoint_metrics. Two servers are fast, two
// have small KV caches, and requests are for LoRA adapters of which each server has room for only some. All contenders
// run in one gateway that is switched by configuration; in every round they get the same requests at the same times, in
// rotating order.
package metrics

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/loadgen"
)

type settings struct {
	bench.Settings
	span     time.Duration
	warm     time.Duration
	load     float64
	extra    bool
	policies string
	variants []compare.Policy
}

func parse() (settings, error) {
	var s settings
	s.Flags(5)
	s.WorkersFlag(4)
	flag.DurationVar(&s.span, "span", 30*time.Second, "time in which the requests of one run arrive")
	flag.DurationVar(&s.warm, "warm", 10*time.Second, "time before that with the same traffic, of which "+
		"nothing is measured")
	flag.Float64Var(&s.load, "load", 0.8, "share of the servers' capacity that the traffic uses")
	flag.BoolVar(&s.extra, "extra", false, "also compare endpoint_metrics with unit: tokens")
	bench.OnlyFlag(&s.policies, "policies", names(contenders(true)))
	compare.VariantFlag(func(p compare.Policy) { s.variants = append(s.variants, p) })
	flag.Parse()
	return s, nil
}

// Benchmark is to be played.
var Benchmark = bench.New("metrics", parse, run)

func run(ctx context.Context, s settings) error {
	policies, err := s.selected()
	if err != nil {
		return err
	}
	f, err := newFleet()
	if err != nil {
		return err
	}
	rep := &report{settings: s, fleet: f, policies: policies}
	if err := compare.On(ctx, compare.Options{
		Workers: s.Workers, Servers: f.servers, Slots: f.slots, First: compare.RoundRobin,
	}, func(stage *compare.Stage) error {
		draw := func(round int) ([]loadgen.Request, error) {
			return compare.AtLoad(workload(s.Seed+uint64(round)), f.servers, s.load, s.warm+s.span)
		}
		play := func(reqs []loadgen.Request, i int) (result, error) {
			played, err := stage.SwitchAndPlay(ctx, policies[i], reqs, s.warm)
			if err != nil {
				return result{}, err
			}
			return resultOf(played, reqs, f), nil
		}
		return bench.Play(&rep.Runs, columns, "", s.Rounds, names(policies), draw, play)
	}); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// result is what one policy did in one round.
type result struct {
	compare.Result
	work     float64 // of the server with the most work for its capacity, over the mean of all
	herd     herd
	base     loadgen.Quantiles // of TTFT, of requests for the base model
	adapters loadgen.Quantiles // and for adapters
}

func resultOf(r compare.Result, reqs []loadgen.Request, f *fleet) result {
	var base, adapters []time.Duration
	for i := range r.Samples {
		s := &r.Samples[i]
		switch {
		case !s.OK():
		case reqs[s.ID].Model == baseModel:
			base = append(base, s.TTFT)
		default:
			adapters = append(adapters, s.TTFT)
		}
	}
	return result{
		Result: r, work: f.imbalance(r.Samples, reqs), herd: herdOf(r.Samples, len(f.servers)),
		base: loadgen.QuantilesOf(base), adapters: loadgen.QuantilesOf(adapters),
	}
}

// queuedShare is the percentage of requests that a server had to make wait.
func (r *result) queuedShare() float64 {
	return bench.Percent(int(r.Engines.Queued), r.Summary.Requests)
}

// Names of the contenders in the last line of the output.
const (
	nativeName = "least_request"
	countsName = "global_least_request"
	ownName    = "endpoint_metrics"
)

// contenders returns all, in the order of the table.
func contenders(extra bool) []compare.Policy {
	counts := compare.Warmgate
	counts.Name = countsName
	all := []compare.Policy{
		compare.LeastRequest, counts, compare.Plugin(ownName, ownName, "", compare.ByMetrics),
	}
	if extra {
		all = append(all, compare.Plugin(ownName+", tokens", ownName, `"unit":"tokens",`, compare.ByMetrics))
	}
	return all
}

// selected returns the contenders that the settings name, and the variants.
func (s settings) selected() ([]compare.Policy, error) {
	policies, err := bench.Named(contenders(s.extra || s.policies != ""), s.policies, func(p compare.Policy) string {
		return p.Name
	})
	if err != nil {
		return nil, err
	}
	policies = append(policies, s.variants...)
	if len(policies) == 0 {
		return nil, errors.New("no policy to play")
	}
	return policies, nil
}

func names(policies []compare.Policy) []string {
	return bench.Names(policies, func(p compare.Policy) string { return p.Name })
}

// report is the output of the benchmark.
type report struct {
	bench.Runs[result]
	settings settings
	fleet    *fleet
	policies []compare.Policy
}

func ttftP99(r *result) float64     { return bench.MS(r.Summary.TTFT.P99) }
func preemptions(r *result) float64 { return float64(r.Engines.Preemptions) }
func herdCV(r *result) float64      { return r.herd.CV }

var columns = bench.Columns[result]{
	bench.Col("TTFT mean ms", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.Mean) }),
	bench.Col("p50", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P50) }),
	bench.Col("p99", "%.0f", ttftP99),
	bench.Col("p99, base model", "%.0f", func(r *result) float64 { return bench.MS(r.base.P99) }),
	bench.Col("p99, adapters", "%.0f", func(r *result) float64 { return bench.MS(r.adapters.P99) }),
	bench.Col("latency p50 ms", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.Latency.P50) }),
	bench.Col("p99", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.Latency.P99) }),
	bench.Col("queued, % of requests", "%.1f", (*result).queuedShare),
	bench.Col("queued request·s", "%.1f", func(r *result) float64 { return r.Queued }),
	bench.Col("queued beside an idle server, %", "%.1f", func(r *result) float64 {
		return bench.Percent(r.Placement.BesideIdle, r.Placement.Requests)
	}),
	bench.Col("… beside a free slot, %", "%.1f", func(r *result) float64 {
		return bench.Percent(r.Placement.BesideFree, r.Placement.Requests)
	}),
	bench.Col("preemptions", "%.0f", preemptions),
	bench.Col("adapter loads", "%.0f", func(r *result) float64 { return float64(r.Engines.Loads) }),
	bench.Col("work over capacity, max/mean", "%.2f", func(r *result) float64 { return r.work }),
	bench.Col("herd", "%.2f", herdCV),
	bench.Col("… by chance", "%.2f", func(r *result) float64 { return r.herd.Chance }),
	bench.Col("errors", "%.0f", func(r *result) float64 { return float64(r.Summary.Failed()) }),
}

func (rep *report) table() *bench.Table { return rep.Tabulate(columns, "median (min..max)") }

// configuration returns what was compared.
func (rep *report) configuration() []string {
	c := engine()
	lines := []string{
		fmt.Sprintf("servers: 2 of speed 2, 4 of speed 1, 2 of speed 1 with %d KV blocks of %d tokens; no limit on "+
			"the queue, %d adapters in a batch and on the GPU, %v ms to load one; no policy is configured with the "+
			"differences; %s",
			smallCache, c.BlockSize, c.MaxLoras, c.Tuning.AdapterLoadMS, compare.Describe(c)),
		fmt.Sprintf("capacity: %.0f requests/s in all, by %v requests at once (slots, or what the KV cache holds on "+
			"average), without loading of adapters", sum(rep.fleet.capacity), rep.fleet.slots),
		fmt.Sprintf("traffic: open loop, Poisson; prompt %+v, answer %+v tokens, streamed; %s", workload(0).Prompt,
			workload(0).Output, describeModels()),
	}
	for _, p := range rep.policies {
		lines = append(lines, p.Name+": "+p.Describe())
	}
	return lines
}

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
