// Package push compares when a gateway hands a request to a model server: at once (blind), while the server has less
// than a fixed number of requests, or while no request waits in the server's own queue. What may not be handed over
// yet waits in the gateway. Users search trees of thoughts, each in a closed loop, and their answers vary in length.
// Beside Warmgate's prefix_cache with each way to push stand Envoy's round_robin and least_request, and vLLM's router.
// All meet the same simulated servers with the same requests, in rotating order.
package push

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
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

type settings struct {
	bench.Settings
	quick     bool
	clients   int
	workloads string
	policies  string
	ahead     []int
	caps      []int
	variants  []contender
}

func parse() (settings, error) {
	var s settings
	var caps, ahead string
	s.Flags(5)
	s.WorkersFlag(2)
	s.OwnFlag(ownName)
	flag.BoolVar(&s.quick, "quick", false, "one short round: two minutes")
	flag.IntVar(&s.clients, "clients", 0, "users at once, of every workload (default: its own)")
	flag.StringVar(&s.workloads, "workload", usual, "these, divided by commas: "+
		strings.Join(bench.Names(workloads(), workload.title), ", "))
	flag.StringVar(&caps, "caps", "12,16,24", "max_inflight of push: outstanding, divided by commas")
	flag.StringVar(&ahead, "ahead", "1", "push_ahead of further contenders with push: pending, divided by commas")
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders([]int{12, 16, 24}, []int{1}), contender.title))
	compare.VariantFlag(func(p compare.Policy) {
		s.variants = append(s.variants, contender{Contender: router.Contender{Policy: p, Added: true}})
	})
	flag.Parse()
	if s.quick {
		s.Rounds = 1
	}
	var err, err2 error
	s.caps, err = bench.Numbers(caps)
	s.ahead, err2 = bench.Numbers(ahead)
	return s, errors.Join(err, err2)
}

// Benchmark is to be played.
var Benchmark = bench.New("push", parse, run)

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s}
	if err := rep.choose(ctx); err != nil {
		return err
	}
	for i := range rep.workloads {
		if err := rep.play(ctx, &rep.workloads[i]); err != nil {
			return fmt.Errorf("%s: %w", rep.workloads[i].name, err)
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// choose takes the workloads and the contenders that the settings name.
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
	rep.contenders, err = router.Installed(ctx, append(chosen, s.variants...), contenderOf, &rep.Notes)
	return err
}

// play has every contender play a workload once a round.
func (rep *report) play(ctx context.Context, w *workload) error {
	s, list := rep.settings, rep.contenders
	return compare.On(ctx, compare.Options{
		Workers: s.Workers, Servers: slices.Repeat([]vllmsim.Config{w.server}, servers), First: compare.RoundRobin,
	}, func(stage *compare.Stage) error {
		return bench.Play(&rep.Runs, columns, w.name, s.Rounds, bench.Names(list, contender.title),
			func(round int) ([]traffic.Script, error) { return w.scripts(s.Seed + uint64(round)), nil },
			func(scripts []traffic.Script, i int) (result, error) { return list[i].play(ctx, stage, w, scripts) })
	})
}
