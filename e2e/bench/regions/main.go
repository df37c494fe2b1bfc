// Package regions compares how the users of three regions, 100 ms apart, are served: by a gateway in each region for
// the servers there, or by one gateway for all servers, with the policies of Envoy or the router of vLLM. Each region
// has an Envoy and simulated servers of its own, and the users send from home: on the skewed load most of them are in
// one region. All contenders meet the same requests, in rotating order.
package regions

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/traffic"
	"github.com/warmgate/warmgate/internal/mooncake"
)

// apart is the distance of regions that the targets are for.
const apart = 100 * time.Millisecond

type settings struct {
	bench.Settings
	quick      bool
	rtt        time.Duration
	scale      float64 // of the numbers of users
	warm, span time.Duration
	workloads  string
	trace      string
	loads      string
	policies   string
	variants   []contender
}

func parse() (settings, error) {
	var s settings
	s.Flags(3)
	s.WorkersFlag(2)
	s.LanesFlag(2)
	s.OwnFlag(ownName)
	flag.BoolVar(&s.quick, "quick", false, "one round of half the length: ten minutes")
	flag.DurationVar(&s.rtt, "rtt", apart, "a round trip between two regions")
	flag.Float64Var(&s.scale, "users-scale", 1, "so many times the users, for other loads")
	flag.DurationVar(&s.warm, "warm", 8*time.Second, "of each run, before anything is measured")
	flag.DurationVar(&s.span, "span", 17*time.Second, "of each run, measured")
	bench.OnlyFlag(&s.workloads, "workload", append(bench.Names(workloads(), workload.title), traceName))
	flag.StringVar(&s.trace, "trace", os.Getenv("TRACE"),
		"file of a trace in Mooncake's form, .jsonl or .jsonl.gz, whose sessions are a workload too (default $TRACE)")
	bench.OnlyFlag(&s.loads, "load", []string{skewed, even})
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders(apart), contender.title))
	compare.VariantFlag(func(p compare.Policy) {
		c := local(p.Name, twelve, p)
		c.added = true
		s.variants = append(s.variants, c)
	})
	flag.Parse()
	if s.scale <= 0 || s.rtt < 0 || s.rtt > time.Second {
		return s, errors.New("-users-scale must be above 0, and -rtt at most 1s")
	}
	if s.quick {
		s.Rounds, s.warm, s.span = 1, s.warm/2, s.span/2
	}
	return s, s.Valid()
}

// Benchmark is to be played.
var Benchmark = bench.New("regions", parse, compareAll)

func compareAll(ctx context.Context, s settings) error {
	rep := &report{settings: s}
	if err := rep.choose(ctx); err != nil {
		return err
	}
	if err := rep.play(ctx, func(ctx context.Context) (*stage, error) {
		return newStage(ctx, &s,
			engine())
	}); err != nil {
		return err
	}
	rep.noteLimits()
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// choose takes the cells and the contenders that the settings name.
func (rep *report) choose(ctx context.Context) (err error) {
	s := rep.settings
	all := workloads()
	if s.trace != "" {
		trace, err := mooncake.Read(s.trace)
		if err != nil {
			return err
		}
		all = append(all, sessionsOf(trace))
	}
	if rep.cells, err = cells(all, s.workloads, s.loads, s.scale); err != nil {
		return err
	}
	chosen, err := bench.Named(contenders(s.rtt), s.policies, contender.title)
	if err != nil {
		return err
	}
	var list []contender
	for _, c := range append(chosen, s.variants...) {
		if c.asked && s.policies == "" {
			continue
		}
		if s.policies != "" {
			c.on = ""
		}
		list = append(list, c)
	}
	rep.contenders, err = router.Installed(ctx, list, func(c *contender) *router.Contender {
		return &router.Contender{Policy: compare.Policy{Name: c.name}, Router: c.router}
	}, &rep.Notes)
	if err == nil && s.Own != ownName && !slices.Contains(bench.Names(rep.contenders, contender.title), s.Own) {
		err = fmt.Errorf("-own: %q is not played", s.Own)
	}
	return err
}

// play has every contender of a cell play it once a round, in several lanes, each on a stage of its own.
func (rep *report) play(ctx context.Context, newStage func(ctx context.Context) (*stage, error)) (err error) {
	s := &rep.settings
	var stages []*stage
	defer func() {
		for _, st := range stages {
			err = errors.Join(err, st.close())
		}
	}()
	for range s.Lanes {
		st, err := newStage(ctx)
		if err != nil {
			return err
		}
		stages = append(stages, st)
	}
	for i := range rep.cells {
		c := &rep.cells[i]
		list := rep.playedOn(c)
		scripts := make([]func() [regions][]traffic.Script, s.Rounds) // the same for all of a round
		for round := range scripts {
			seed := s.Seed + uint64(round)
			scripts[round] = sync.OnceValue(func() [regions][]traffic.Script { return c.scripts(seed) })
		}
		if err := bench.PlaySideBySide(ctx, &rep.Runs, columns, c.key(), len(stages), s.Rounds,
			bench.Names(list, contender.title), func(ctx context.Context, lane, round, k int) (result, error) {
				return list[k].play(ctx, stages[lane], s, c.users(), scripts[round]())
			}); err != nil {
			return err
		}
	}
	return nil
}

// playedOn returns the contenders of a cell. All get their place in the table.
func (rep *report) playedOn(at *cell) (list []contender) {
	for _, c := range rep.contenders {
		if rep.Add(at.key(), c.name); c.playedOn(at) {
			list = append(list, c)
		}
	}
	return list
}
