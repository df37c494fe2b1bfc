// Command push compares when a gateway hands a request to a model server: at once (blind), while the server has less
// than a fixed number of requests, or while no request waits in the server's own queue. What may not be handed over
// yet waits in the gateway. Users search trees of thoughts, each in a closed loop, and their answers vary in length.
// Beside Warmgate's prefix_cache with each way to push stand Envoy's round_robin and least_request, and vLLM's router.
// All meet the same simulated servers with the same requests, in rotating order.
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

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

type settings struct {
	rounds    int
	quick     bool
	workers   int
	seed      uint64
	clients   int
	workloads string
	policies  string
	ahead     []int
	caps      []int
	own       string
	variants  []contender
	markdown  string
}

// Defaults of the lists.
const (
	usualCaps  = "12,16,24"
	usualAhead = "1"
)

func parse() (settings, error) {
	var s settings
	var caps, ahead string
	flag.IntVar(&s.rounds, "rounds", 5, "paired rounds")
	flag.BoolVar(&s.quick, "quick", false, "one short round: two minutes")
	flag.IntVar(&s.workers, "workers", 2, "worker threads of the gateway")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first round")
	flag.IntVar(&s.clients, "clients", 0, "users at once, of every workload (default: its own)")
	flag.StringVar(&s.workloads, "workload", usual, "these, divided by commas: "+
		strings.Join(bench.Names(workloads(), workload.title), ", "))
	flag.StringVar(&caps, "caps", usualCaps, "max_inflight of push: outstanding, divided by commas")
	flag.StringVar(&ahead, "ahead", usualAhead,
		"push_ahead of further contenders with push: pending, divided by commas")
	flag.StringVar(&s.policies, "policies", "", "only these, divided by commas: "+
		strings.Join(bench.Names(contenders([]int{12, 16, 24}, []int{1}), contender.title), ", "))
	flag.StringVar(&s.own, "own", ownName, "the contender that the last line compares with the others")
	flag.Func("variant", "NAME=JSON: also play this plugin configuration; may be repeated", func(text string) error {
		p, err := compare.Variant(text)
		s.variants = append(s.variants, contender{name: p.Name, policy: p, added: true})
		return err
	})
	flag.StringVar(&s.markdown, "markdown", "", "also write the table to this file, as Markdown")
	flag.Parse()
	if s.quick {
		s.rounds = 1
	}
	var err, err2 error
	s.caps, err = bench.Numbers(caps)
	s.ahead, err2 = bench.Numbers(ahead)
	return s, errors.Join(err, err2)
}

func main() { bench.Main("push", parse, run) }

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s}
	if err := rep.choose(ctx); err != nil {
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

// choose takes the workloads and the contenders that the settings name. A router that cannot be had is left out, with a
// note.
func (rep *report) choose(ctx context.Context) (err error) {
	s := rep.settings
	if rep.workloads, err = bench.Named(workloads(), s.workloads, workload.title); err != nil {
		return err
	}
	for i := range rep.workloads {
		rep.workloads[i].adjust(s)
	}
	chosen, err := bench.Named(contenders(s.caps, s.ahead), s.policies, contender.title)
	if err != nil {
		return err
	}
	for _, c := range append(chosen, s.variants...) {
		if c.router != nil {
			if err := c.router.Install(ctx); err != nil {
				rep.note(fmt.Sprintf("%s: left out, cannot be installed: %v", c.name, err))
				continue
			}
		}
		rep.contenders = append(rep.contenders, c)
	}
	return ctx.Err()
}

// note keeps a remark for the reader of the figures: it is printed at once and again with the configuration.
func (rep *report) note(text string) {
	fmt.Println(text)
	rep.notes = append(rep.notes, text)
}

// rounds plays a workload with every contender once a round and returns the results by contender.
func rounds(ctx context.Context, s settings, module string, w *workload, list []contender) ([][]result, error) {
	stage, err := compare.NewStage(ctx, compare.Options{
		Workers: s.workers, Servers: slices.Repeat([]vllmsim.Config{w.server}, servers), Module: module,
		First: compare.RoundRobin,
	})
	if err != nil {
		return nil, err
	}
	var scripts []traffic.Script
	results, err := bench.Rounds(s.rounds, len(list), func(round int) error {
		scripts = w.scripts(s.seed + uint64(round))
		return nil
	}, func(round, i int) (result, error) {
		r, err := list[i].play(ctx, stage, w, scripts)
		if err != nil {
			return r, fmt.Errorf("%s: %w", list[i].name, err)
		}
		fmt.Printf("%-8s  round %d  %-22s  %s\n", w.name, round+1, list[i].name, r)
		return r, nil
	})
	return results, errors.Join(err, stage.Close())
}
