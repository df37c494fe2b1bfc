// Package metrics compares ways to balance unequal model servers by their metrics with ways that do not use these:
// Envoy's native least_request, Warmgate's global_least_request and its endpoint_metrics. Two servers are fast, two
// have small KV caches, and requests are for LoRA adapters of which each server has room for only some. All contenders
// run in one gateway that is switched by configuration; in every round they get the same requests at the same times, in
// rotating order.
package metrics

import (
	"context"
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
	flag.Func("variant", "NAME=JSON: also play Warmgate with this plugin configuration; "+
		"may be repeated", func(text string) error {
		p, err := compare.Variant(text)
		s.variants = append(s.variants, p)
		return err
	})
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
		return bench.Play(&rep.Runs, "", s.Rounds, names(policies), func(round int) ([]loadgen.Request, error) {
			return compare.AtLoad(workload(s.Seed+uint64(round)), f.servers, s.load, s.warm+s.span)
		}, func(reqs []loadgen.Request, i int) (result, error) {
			played, err := stage.SwitchAndPlay(ctx, policies[i], reqs, s.warm)
			if err != nil {
				return result{}, err
			}
			return resultOf(played, reqs, f), nil
		})
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

// String returns a line about the run.
func (r result) String() string {
	return fmt.Sprintf("%5d requests  TTFT mean %6.0f p50 %5.0f p99 %7.0f ms (base model %5.0f, adapters "+
		"%5.0f)  latency p99 %7.0f ms  queued %4.1f %%  %4d preemptions  %5d loads  herd %.2f (%.2f by chance)",
		r.Summary.Requests, bench.MS(r.Summary.TTFT.Mean), bench.MS(r.Summary.TTFT.P50), bench.MS(
			r.Summary.TTFT.P99), bench.MS(r.base.P99), bench.MS(r.adapters.P99),
		bench.MS(r.Summary.Latency.P99), r.queuedShare(), r.Engines.Preemptions, r.Engines.Loads, r.herd.CV,
		r.herd.Chance)
}

// queuedShare is the percentage of requests that a server had to make wait.
func (r *result) queuedShare() float64 {
	return bench.Percent(int(r.Engines.Queued), r.Summary.Requests)
}
