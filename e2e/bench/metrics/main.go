// Package metrics compares ways to balance unequal model servers by their metrics with ways that do not use these:
// Envoy's native least_request, Warmgate's global_least_request and its endpoint_metrics. Two servers are fast, two
// have small KV caches, and requests are for LoRA adapters of which each server has room for only some. All contenders
// run in one gateway that is switched by configuration; in every round they get the same requests at the same times, in
// rotating order.
package metrics

import (
	"context"
	"flag"
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
