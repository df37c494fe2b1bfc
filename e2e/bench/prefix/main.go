// Command prefix compares ways to choose a server by what its KV cache holds, and ways that do not: Envoy's round_robin,
// least_request and ring_hash by session, Warmgate's global_least_request, affinity by XOR-combined blocks, the cache-aware
// routers of vLLM and SGLang, and Warmgate's prefix_cache. All meet the same simulated servers, whose answers come the sooner
// the more of a prompt they have cached and whose caches are limited, with the same requests, in rotating order.
//
// Clients are closed loops whose prompts contain the answers they got before; the replay of a trace is an open loop.
//
// The last line of its output is one JSON object.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
)

type settings struct {
	rounds        int
	workers       int
	seed          uint64
	workloads     string
	policies      string
	variants      []contender
	trace         string
	traceRequests int
	traceSpan     time.Duration
	markdown      string
}

func parse() settings {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 3, "paired rounds")
	flag.IntVar(&s.workers, "workers", 2, "worker threads of the gateway")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first round")
	flag.StringVar(&s.workloads, "workload", "", "only these, divided by commas: sessions, shared, trees2, trees24, forty, trace")
	flag.StringVar(&s.policies, "policies", "", "only these, divided by commas: "+strings.Join(names(contenders()), ", "))
	flag.Func("variant", "NAME=JSON: also play Warmgate with this plugin configuration; may be repeated", func(text string) error {
		c, err := variant(text)
		s.variants = append(s.variants, c)
		return err
	})
	flag.StringVar(&s.trace, "trace", os.Getenv("TRACE"), "file of the trace to replay, in Mooncake's form, .jsonl or .jsonl.gz (default $TRACE)")
	flag.IntVar(&s.traceRequests, "trace-requests", 2400, "requests of the trace to replay")
	flag.DurationVar(&s.traceSpan, "trace-span", 8*time.Second, "time to replay them in")
	flag.StringVar(&s.markdown, "markdown", "", "also write the table to this file, as Markdown")
	flag.Parse()
	return s
}

func main() {
	s := parse()
	bench.Main("prefix", func(ctx context.Context) error { return run(ctx, s) })
}

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s}
	if err := rep.selectWorkloads(); err != nil {
		return err
	}
	if err := rep.selectContenders(ctx); err != nil {
		return err
	}
	module, err := harness.Wasm(ctx, harness.HostEnvoy)
	if err != nil {
		return err
	}
	for i := range rep.workloads {
		results, err := rounds(ctx, s, module, &rep.workloads[i], rep.contenders)
		if err != nil {
			return fmt.Errorf("%s: %w", rep.workloads[i].name, err)
		}
		rep.results = append(rep.results, results)
	}
	return bench.Publish(os.Stdout, s.markdown, rep.configuration(), rep.table(), rep.line())
}

// selectWorkloads takes those that the settings name, or all. The trace is left out, with a note, if there is no file.
func (rep *report) selectWorkloads() error {
	s := rep.settings
	chosen, err := bench.Named(append(workloads(), workload{name: traceName}), s.workloads, func(w workload) string { return w.name })
	if err != nil {
		return err
	}
	for _, w := range chosen {
		if w.name == traceName {
			trace, err := readTrace(s.trace, s.traceRequests)
			if s.trace == "" || errors.Is(err, os.ErrNotExist) {
				rep.note(fmt.Sprintf("workload trace: skipped, there is no file %q; name one by TRACE= or -trace", s.trace))
				continue
			}
			if err != nil {
				return err
			}
			w = replay(trace, s.traceSpan)
		}
		rep.workloads = append(rep.workloads, w)
	}
	return nil
}

// selectContenders takes those that the settings name, or all. A router that cannot be had is left out, with a note.
func (rep *report) selectContenders(ctx context.Context) error {
	chosen, err := bench.Named(contenders(), rep.settings.policies, func(c contender) string { return c.name })
	if err != nil {
		return err
	}
	for _, c := range append(chosen, rep.settings.variants...) {
		if c.router != nil {
			if err := c.router.install(ctx); err != nil {
				rep.note(fmt.Sprintf("%s: left out, cannot be installed: %v", c.name, err))
				continue
			}
		}
		rep.contenders = append(rep.contenders, c)
	}
	return ctx.Err()
}

// note says something that the reader of the figures must know, at once and again with the configuration.
func (rep *report) note(text string) {
	fmt.Println(text)
	rep.notes = append(rep.notes, text)
}

func names(list []contender) []string {
	var out []string
	for _, c := range list {
		out = append(out, c.name)
	}
	return out
}

// rounds plays a workload with every contender once a round and returns the results by contender.
func rounds(ctx context.Context, s settings, module string, w *workload, list []contender) (results [][]result, err error) {
	stage, err := compare.NewStage(ctx, compare.Options{
		Workers: s.workers, Speeds: slices.Repeat([]float64{1}, w.servers), Server: w.server, Module: module, First: compare.RoundRobin,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	results = make([][]result, len(list))
	for round := range s.rounds {
		scripts := w.scripts(s.seed + uint64(round))
		for _, i := range bench.Order(len(list), round) {
			r, err := list[i].play(ctx, stage, w, scripts)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", list[i].name, err)
			}
			fmt.Printf("%-8s  round %d  %-20s  %s\n", w.name, round+1, list[i].name, r)
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// String says in a line what happened.
func (r result) String() string {
	return fmt.Sprintf("%4d requests in %4.1f s  cached %.3f  TTFT mean %5.1f p99 %6.1f ms  latency p99 %6.0f ms  max/mean %.2f  errors %v",
		r.summary.Requests, r.summary.Elapsed.Seconds(), r.cached, ms(r.summary.TTFT.Mean), ms(r.summary.TTFT.P99), ms(r.summary.Latency.P99),
		r.uneven, r.summary.Errors)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
