// Package simulate measures what a simulation costs, CPU time and memory of one core for a load of described sessions
// before many endpoints; how many servers a day of five regions needs, with and without regions; and how close
// simulations are to real gateways and engines. It starts no gateway.
package simulate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/metrics"
	"github.com/warmgate/warmgate/e2e/bench/prefix"
	"github.com/warmgate/warmgate/e2e/bench/push"
	"github.com/warmgate/warmgate/e2e/bench/regions"
	"github.com/warmgate/warmgate/e2e/simload"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
)

type settings struct {
	endpoints int
	requests  int
	policies  string
	seed      uint64
	seeds     int
	parts     string
	trace     string
	markdown  string
}

// What is measured: costs, the day of regions, and what real gateways and engines had.
var parts = []string{"cost", "day", "real"}

// plays reports whether a part is wanted.
func (s *settings) plays(part string) bool {
	return s.parts == "" || slices.Contains(strings.Split(s.parts, ","), part)
}

func parse() (settings, error) {
	var s settings
	flag.IntVar(&s.endpoints, "endpoints", 1000, "simulated endpoints")
	flag.IntVar(&s.requests, "requests", 1_000_000, "requests of each policy")
	flag.StringVar(&s.policies, "policies", "prefix_cache",
		"policies, divided by commas; the last line is about the first")
	flag.Uint64Var(&s.seed, "seed", 1, "seed")
	flag.IntVar(&s.seeds, "seeds", 3, "seeds of the day of regions, from that one on")
	bench.OnlyFlag(&s.parts, "parts", parts)
	flag.StringVar(&s.trace, "trace", "", "file of a trace in Mooncake's form, for the comparison with real gateways")
	flag.StringVar(&s.markdown, "markdown", "", "also write what was compared and the table into this file")
	flag.Parse()
	if s.endpoints < 1 || s.requests < 1 || s.seeds < 1 {
		return s, errors.New("-endpoints, -requests and -seeds must be at least 1")
	}
	_, err := bench.Named(parts, s.parts, func(p string) string { return p })
	return s, err
}

// Benchmark is to be played.
var Benchmark = bench.New("simulate", parse, measure)

// What a simulation of a thousand endpoints and a million requests may take.
const (
	mostSeconds = 60
	mostMB      = 2000
)

// cost is what one run took.
type cost struct {
	result *simulate.Result
	cpu    float64 // seconds
	wall   float64
	rss    float64 // the most memory of the process so far, MB
}

// load is conversations that fill endpoints of the default speed to a half.
func (s settings) load() *simulate.Sessions {
	return &simulate.Sessions{
		Users: 8 * s.endpoints, Requests: s.requests, Prompts: 50, System: 3000, Turns: 6, Question: 200, Answer: 200,
		Think: 8 * time.Second,
	}
}

func (s settings) fleet() []simulate.Engine {
	return simulate.Alike(s.endpoints, simulate.Engine{Config: enginesim.Config{NumBlocks: 8192}})
}

func measure(ctx context.Context, s settings) error {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(simulate.GCPercent)
	line := bench.Line{"bench": "simulate"}
	costs, day := &bench.Table{Head: []string{
		"policy", "requests/s of CPU time", "CPU s", "wall s", "memory MB", "TTFT ms p50", "p99", "cached %",
	}}, dayTable()
	var err error
	if s.plays("cost") {
		err = s.costs(ctx, costs, line)
	}
	if err == nil && s.plays("day") {
		err = s.day(ctx, day, line)
	}
	if err == nil && s.plays("real") {
		err = s.real(line)
	}
	if err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.markdown, s.configuration(), costs, line, day)
}

// costs measures what simulations cost, the first of which goes into the line.
func (s settings) costs(ctx context.Context, t *bench.Table, line bench.Line) error {
	for i, name := range strings.Split(s.policies, ",") {
		c, err := s.run(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if i == 0 {
			c.into(line, s)
		}
		r := c.result
		t.Rows = append(t.Rows, []string{
			name, fmt.Sprintf("%.0f", float64(r.Requests)/c.cpu), fmt.Sprintf("%.1f", c.cpu),
			fmt.Sprintf("%.1f", c.wall), fmt.Sprintf("%.0f", c.rss), fmt.Sprintf("%.0f", r.TTFT.P50*1e3),
			fmt.Sprintf("%.0f", r.TTFT.P99*1e3), fmt.Sprintf("%.1f", r.Cached*100),
		})
		fmt.Println(t.Last(1))
	}
	return nil
}

// real compares simulations with what real gateways and engines had.
func (s settings) real(line bench.Line) error {
	silent := func(string, ...any) {}
	var all simload.Ranking
	for _, ranked := range []func() (simload.Ranking, error){
		func() (simload.Ranking, error) { return prefix.SimulatedRanking(s.trace, silent) },
		func() (simload.Ranking, error) { return push.SimulatedRanking(silent) },
		func() (simload.Ranking, error) { return metrics.SimulatedRanking(silent) },
		func() (simload.Ranking, error) { return regions.SimulatedRanking(silent) },
	} {
		r, err := ranked()
		if err != nil {
			return err
		}
		all.Pairs, all.Same = all.Pairs+r.Pairs, all.Same+r.Same
	}
	ttft, _, err := simload.LikeRealEngines(silent)
	line["ranking_agrees"], line["ranking_pairs"], line["h200_ttft_error"] = all.Share(), all.Pairs, ttft
	return err
}

// run plays the load with a policy.
func (s settings) run(ctx context.Context, policy string) (*cost, error) {
	c, err := simulate.OfPolicy(policy)
	if err != nil {
		return nil, err
	}
	began, before := time.Now(), usage()
	r, err := simulate.Run(s.load().New(s.seed), s.fleet(), c, s.seed, func(int) bool { return ctx.Err() == nil })
	if err != nil {
		return nil, err
	}
	after := usage()
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	return &cost{r, cpu.Seconds(), time.Since(began).Seconds(), float64(after.Maxrss) * 1024 / 1e6}, nil
}

// usage is what the process has used so far.
func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are valid
	}
	return u
}

func (s settings) configuration() []string {
	l, f := s.load(), s.fleet()
	return []string{
		fmt.Sprintf("%d endpoints of %d tokens of KV cache, times of enginesim.DefaultTimes", len(f),
			f[0].Config.NumBlocks*f[0].Config.WithDefaults().BlockSize),
		fmt.Sprintf("%d requests of %d users, conversations of %d turns over %d system prompts of %d tokens, "+
			"questions and answers of %d and %d tokens, pauses of %v", l.Requests, l.Users, l.Turns, l.Prompts,
			l.System, l.Question, l.Answer, l.Think),
		"CPU: user and kernel time of the process on one core, garbage collection included; memory: the most so far",
		fmt.Sprintf("day of %v: %d users of five regions %v apart, of which %g are awake at night; the fewest "+
			"servers, %d in a region at most, by which nine in ten first tokens come within %v in each and nothing "+
			"is refused",
			dayLength, dayUsers, dayApart, dayNight, dayMost, dayWithin),
	}
}

// into adds what a run took to the last line of the output.
func (c *cost) into(line bench.Line, s settings) {
	maps.Copy(line, bench.Line{
		"policy": c.result.Policy, "endpoints": s.endpoints, "requests": c.result.Requests,
		"requests_per_s": float64(c.result.Requests) / c.cpu, "cpu_s": c.cpu, "wall_s": c.wall, "rss_mb": c.rss,
		"target_met": c.cpu <= mostSeconds && c.rss <= mostMB,
	})
}
