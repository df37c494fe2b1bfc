// Package overload sends more requests than the servers can answer, at several multiples of their capacity, and
// measures what is still answered in time. Requests of three classes arrive in an open loop, each with a deadline, and
// clients that are refused try again. Warmgate that queues and refuses is compared with Warmgate that hands over every
// request at once, and with Envoy's least_request behind circuit breakers and behind its admission control. All run in
// one gateway that is switched by configuration; in every round they get the same requests at the same times, in
// rotating order.
package overload

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/wait"
)

type settings struct {
	bench.Settings
	quick    bool
	warm     time.Duration
	span     time.Duration
	loads    bench.List[float64]
	stream   bool
	policies string
	scenes   string
	variants []Contender
}

func parse() (settings, error) {
	s := settings{loads: []float64{0.8, 1, 2, 10}}
	s.Flags(5)
	s.WorkersFlag(2)
	s.OwnFlag(pendingName)
	flag.BoolVar(&s.quick, "quick", false, "one short round: five minutes")
	flag.DurationVar(&s.warm, "warm", 4*time.Second, "time before that with the same traffic, not measured")
	flag.DurationVar(&s.span, "span", 8*time.Second, "time in which the measured requests of a run arrive")
	flag.Var(&s.loads, "loads", "arrivals as multiples of the servers' capacity, divided by commas")
	flag.BoolVar(&s.stream, "stream", false, "answers stream: Envoy's admission control then takes every request for "+
		"a success, as soon as its answer begins")
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders(), Contender.title))
	bench.OnlyFlag(&s.scenes, "scenes", bench.Names(scenes(), scene.title))
	compare.VariantFlag(func(p compare.Policy) { s.variants = append(s.variants, Contender{Name: p.Name, Policy: p}) })
	flag.Func("priorities", "CLASSES:DEFAULT+HIGH: also play "+priorityName+" with so many classes of Envoy's "+
		"priority HIGH, and these max_requests; may be repeated", func(text string) error {
		c, err := parsePriorities(text)
		s.variants = append(s.variants, c)
		return err
	})
	flag.Parse()
	if s.quick {
		s.Rounds, s.warm, s.span = 1, 3*time.Second, 5*time.Second
	}
	return s, nil
}

// Benchmark is to be played.
var Benchmark = bench.New("overload", parse, run)

func run(ctx context.Context, s settings) error {
	chosen, err := bench.Named(contenders(), s.policies, Contender.title)
	if err != nil {
		return err
	}
	list, err := bench.Named(scenes(), s.scenes, scene.title)
	if err != nil {
		return err
	}
	rep := &report{settings: s, contenders: append(chosen, s.variants...)}
	if rep.capacity, err = capacity(); err != nil {
		return err
	}
	b, err := newBoard(ctx, compare.Options{Workers: s.Workers})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(x scene) bool { return x.play == nil }) {
		err = rep.play(ctx, b.Stage)
	}
	if err == nil {
		rep.found, err = playScenes(ctx, b, s, list)
	}
	if err := errors.Join(err, b.Close()); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// play plays all loads with every contender once a round.
func (rep *report) play(ctx context.Context, stage *compare.Stage) error {
	s, list := rep.settings, rep.contenders
	var calls [][]Call
	_, err := bench.Rounds(s.Rounds, len(list), func(round int) (err error) {
		calls, err = s.calls(s.Seed + uint64(round))
		return err
	}, func(round, i int) (none struct{}, err error) {
		if !list[i].limit {
			if err := stage.Switch(ctx, list[i].Policy); err != nil {
				return none, err
			}
		}
		for k, load := range s.loads {
			r, err := list[i].Play(ctx, stage, s.warm, s.span, calls[k])
			if err != nil {
				return none, fmt.Errorf("%s at %v: %w", list[i].Name, load, err)
			}
			fmt.Printf("round %d  %-20s  %4.1f × capacity  %s\n", round+1, list[i].Name, load, columns.Show(&r))
			rep.Add(at(load), list[i].Name, r)
		}
		return none, nil
	})
	return err
}

// at names the cell of a load.
func at(load float64) string { return fmt.Sprintf("%v ×", load) }

// calls returns the traffic of a round by load.
func (s settings) calls(seed uint64) ([][]Call, error) {
	var out [][]Call
	for _, load := range s.loads {
		calls, err := Calls(seed, load, fleet(), s.warm+s.span, s.stream)
		if err != nil {
			return nil, err
		}
		out = append(out, calls)
	}
	return out, nil
}

// prepareServers waits until no server has a request, as those of a run must not burden the next, and has them forget
// what they have counted and cached.
func prepareServers(ctx context.Context, stage *compare.Stage) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := wait.Until(ctx, 20*time.Millisecond, func() error {
		for i, n := range stage.Inflight() {
			if n > 0 {
				return fmt.Errorf("server %d still has %d requests", i, n)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, srv := range stage.Servers {
		srv.Reset()
	}
	return nil
}
