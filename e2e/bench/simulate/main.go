// Package simulate measures what a simulation costs: CPU time and memory of one core for a load of described sessions
// before many endpoints. It starts no gateway.
package simulate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
)

type settings struct {
	endpoints int
	requests  int
	policies  string
	seed      uint64
	markdown  string
}

func parse() (settings, error) {
	var s settings
	flag.IntVar(&s.endpoints, "endpoints", 1000, "simulated endpoints")
	flag.IntVar(&s.requests, "requests", 1_000_000, "requests of each policy")
	flag.StringVar(&s.policies, "policies", "prefix_cache",
		"policies, divided by commas; the last line is about the first")
	flag.Uint64Var(&s.seed, "seed", 1, "seed")
	flag.StringVar(&s.markdown, "markdown", "", "also write what was compared and the table into this file")
	flag.Parse()
	if s.endpoints < 1 || s.requests < 1 {
		return s, errors.New("-endpoints and -requests must be at least 1")
	}
	return s, nil
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
	var first *cost
	t := &bench.Table{Head: []string{
		"policy", "requests/s of CPU time", "CPU s", "wall s", "memory MB", "TTFT ms p50", "p99", "cached %",
	}}
	for _, name := range strings.Split(s.policies, ",") {
		c, err := s.run(ctx, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if first == nil {
			first = c
		}
		r := c.result
		t.Rows = append(t.Rows, []string{
			name, fmt.Sprintf("%.0f", float64(r.Requests)/c.cpu), fmt.Sprintf("%.1f", c.cpu),
			fmt.Sprintf("%.1f", c.wall), fmt.Sprintf("%.0f", c.rss), fmt.Sprintf("%.0f", r.TTFT.P50*1e3),
			fmt.Sprintf("%.0f", r.TTFT.P99*1e3), fmt.Sprintf("%.1f", r.Cached*100),
		})
		fmt.Println(t.Last(1))
	}
	return bench.Publish(os.Stdout, s.markdown, s.configuration(), t, s.line(first))
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
	}
}

// line returns the last line of the output.
func (s settings) line(c *cost) bench.Line {
	return bench.Line{
		"bench": "simulate", "policy": c.result.Policy, "endpoints": s.endpoints, "requests": c.result.Requests,
		"requests_per_s": float64(c.result.Requests) / c.cpu, "cpu_s": c.cpu, "wall_s": c.wall, "rss_mb": c.rss,
		"target_met": c.cpu <= mostSeconds && c.rss <= mostMB,
	}
}
