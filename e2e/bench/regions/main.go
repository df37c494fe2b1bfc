// Command regions compares how the users of three regions, 100 ms apart, are served: by a gateway in each region for
// the servers there, or by one gateway for all servers, with the policies of Envoy or the router of vLLM. Each region
// has an Envoy and simulated servers of its own, and the users send from home: on the skewed load most of them are in
// one region. All contenders meet the same requests, in rotating order.
//
// The last line of its output is one JSON object.
package main

import (
	"cmp"
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

// apart is the distance of regions that the targets are for.
const apart = 100 * time.Millisecond

type settings struct {
	rounds     int
	quick      bool
	workers    int
	lanes      int
	seed       uint64
	rtt        time.Duration
	scale      float64 // of the numbers of users
	warm, span time.Duration
	workloads  string
	loads      string
	policies   string
	own        string
	variants   []contender
	markdown   string
}

func parse() (settings, error) {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 3, "paired rounds")
	flag.BoolVar(&s.quick, "quick", false, "one round of half the length: ten minutes")
	flag.IntVar(&s.workers, "workers", 2, "worker threads of each gateway")
	flag.IntVar(&s.lanes, "lanes", 2, "contenders played side by side, each with servers and gateways of its own")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first round")
	flag.DurationVar(&s.rtt, "rtt", apart, "a round trip between two regions")
	flag.Float64Var(&s.scale, "users-scale", 1, "so many times the users, for other loads")
	flag.DurationVar(&s.warm, "warm", 8*time.Second, "of each run, before anything is measured")
	flag.DurationVar(&s.span, "span", 17*time.Second, "of each run, measured")
	flag.StringVar(&s.workloads, "workload", "", "only these, divided by commas: "+
		strings.Join(bench.Names(workloads(), workload.title), ", "))
	flag.StringVar(&s.loads, "load", "", "only these, divided by commas: "+skewed+", "+even)
	flag.StringVar(&s.policies, "policies", "", "only these, in all cells, divided by commas: "+
		strings.Join(bench.Names(contenders(apart), contender.title), ", "))
	flag.StringVar(&s.own, "own", "", "the contender that the last line compares with the others, which must be "+
		"played (default "+ownName+")")
	flag.Func("variant", "NAME=JSON: also play this plugin configuration in each region; may be repeated",
		func(text string) error {
			p, err := compare.Variant(text)
			c := local(p.Name, servers, p)
			c.added = true
			s.variants = append(s.variants, c)
			return err
		})
	flag.StringVar(&s.markdown, "markdown", "", "also write the table to this file, as Markdown")
	flag.Parse()
	if s.rounds < 1 || s.lanes < 1 {
		return s, errors.New("-rounds and -lanes must be at least 1")
	}
	if s.scale <= 0 || s.rtt < 0 || s.rtt > time.Second {
		return s, errors.New("-users-scale must be above 0, and -rtt at most 1s")
	}
	if s.quick {
		s.rounds, s.warm, s.span = 1, s.warm/2, s.span/2
	}
	return s, nil
}

func main() { bench.Main("regions", parse, compareAll) }

func compareAll(ctx context.Context, s settings) error {
	rep := &report{settings: s}
	if err := rep.choose(ctx); err != nil {
		return err
	}
	module, err := harness.Wasm(ctx, harness.HostEnvoy)
	if err != nil {
		return err
	}
	if rep.results, err = playLanes(ctx, &s, rep.cells, rep.contenders, func(ctx context.Context) (*stage, error) {
		return newStage(ctx, &s, module, engine())
	}); err != nil {
		return err
	}
	rep.noteLimits()
	return bench.Publish(os.Stdout, s.markdown, rep.configuration(), rep.table(), rep.line())
}

// choose takes the cells and the contenders that the settings name. A router that cannot be had is left out, with a
// note.
func (rep *report) choose(ctx context.Context) (err error) {
	s := rep.settings
	if rep.cells, err = cells(s.workloads, s.loads, s.scale); err != nil {
		return err
	}
	chosen, err := bench.Named(contenders(s.rtt), s.policies, contender.title)
	if err != nil {
		return err
	}
	for _, c := range append(chosen, s.variants...) {
		if c.asked && s.policies == "" {
			continue
		}
		if s.policies != "" {
			c.on = ""
		}
		if c.router != nil {
			if err := c.router.Install(ctx); err != nil {
				rep.note(fmt.Sprintf("%s: left out, cannot be installed: %v", c.name, err))
				continue
			}
		}
		rep.contenders = append(rep.contenders, c)
	}
	if s.own != "" && !slices.Contains(bench.Names(rep.contenders, contender.title), s.own) {
		return fmt.Errorf("-own: %q is not played", s.own)
	}
	rep.settings.own = cmp.Or(s.own, ownName)
	return ctx.Err()
}
