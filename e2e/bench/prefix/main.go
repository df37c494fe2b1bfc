// Package prefix compares ways to choose a server by what its KV cache holds, and ways that do not: Envoy's
// round_robin, least_request and ring_hash by session, Warmgate's global_least_request, affinity by XOR-combined
// blocks, the cache-aware routers of vLLM and SGLang, and Warmgate's prefix_cache. All meet the same simulated servers,
// whose answers come the sooner the more of a prompt they have cached and whose caches are limited, with the same
// requests, in rotating order.
//
// One of them, exact, chooses by what the servers' caches really hold: it is the limit for those who must guess that.
//
// Clients are closed loops whose prompts contain the answers they got before; the replay of a trace is an open loop.
// Both can be played at shares of the servers' capacity.
package prefix

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
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// Benchmark is to be played.
var Benchmark = bench.New("prefix", parse, run)

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s}
	if err := rep.selectWorkloads(); err != nil {
		return err
	}
	if err := rep.selectContenders(ctx); err != nil {
		return err
	}
	played := rep.played()
	for i := range rep.workloads {
		of, err := rounds(ctx, s, &rep.workloads[i], played)
		if err != nil {
			return fmt.Errorf("%s: %w", rep.workloads[i].name, err)
		}
		rep.keep(rep.workloads[i].name, played, of)
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// selectWorkloads takes those that the settings name, at each of the loads. Those of a trace are left out, with a note,
// if there is no file.
func (rep *report) selectWorkloads() error {
	s := rep.settings
	trace, err := s.readTrace()
	if err != nil {
		return err
	}
	all := append(workloads(), replays(trace, s.traceFrom, s.traceRequests, s.traceSpan)...)
	list := s.workloads
	if list == everything {
		list = ""
	}
	chosen, err := bench.Named(all, list, workload.title)
	if err != nil {
		return err
	}
	for _, w := range chosen {
		if w.write == nil {
			rep.Note("workload %s: skipped, there is no file %q; name one by TRACE= or -trace", w.name, s.trace)
			continue
		}
		w.capacity = capacityOf(&w, s.Seed)
		rep.workloads = append(rep.workloads, w.atLoads(s.loads)...)
	}
	return nil
}

// readTrace returns nothing if there is no file.
func (s settings) readTrace() ([]mooncake.Request, error) {
	if s.trace == "" {
		return nil, nil
	}
	trace, err := mooncake.Read(s.trace)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return trace, err
}

// atLoads returns the workload at each of the shares of the capacity, or, if there are none, at its own.
func (w workload) atLoads(loads []float64) []workload {
	if len(loads) == 0 {
		return []workload{w}
	}
	var out []workload
	for _, load := range loads {
		at := w.at(load, w.capacity)
		at.name = fmt.Sprintf("%s@%v", w.kind, load)
		out = append(out, at)
	}
	return out
}

// selectContenders takes those that the settings name, or all.
func (rep *report) selectContenders(ctx context.Context) error {
	chosen, err := bench.Named(contenders(), rep.settings.policies, contender.title)
	if err != nil {
		return err
	}
	if rep.settings.redis {
		for _, c := range chosen {
			if c.Policy.Plugin != "" {
				chosen = append(chosen, c.inRedis())
			}
		}
	}
	rep.contenders, err = router.Installed(ctx, append(chosen, rep.settings.variants...), contenderOf, &rep.Notes)
	return err
}

// rounds plays a workload with every contender once a round.
func rounds(ctx context.Context, s settings, w *workload, list []contender) (of bench.Runs[result], err error) {
	options := compare.Options{
		Workers: s.Workers, Servers: slices.Repeat([]vllmsim.Config{w.server}, w.servers), First: compare.RoundRobin,
	}
	var server *redisserver.Server
	if s.redis {
		server, err = redisserver.Start(ctx, redisserver.Options{})
		if err != nil {
			return of, err
		}
		defer server.Stop()
		options.Redis = server.Addr()
	}
	err = compare.On(ctx, options, func(stage *compare.Stage) error {
		return bench.Play(&of, columns, w.name, s.Rounds, bench.Names(list, contender.title),
			func(round int) ([]script, error) { return w.scripts(s.Seed + uint64(round)), nil },
			func(scripts []script, i int) (result, error) {
				r, err := list[i].play(ctx, stage, w, scripts)
				return r, cmp.Or(err, list[i].counted(server))
			})
	})
	return of, err
}

type settings struct {
	bench.Settings
	workloads     string
	loads         bench.List[float64]
	policies      string
	credits       bench.List[float64]
	variants      []contender
	redis         bool
	trace         string
	traceFrom     int
	traceRequests int
	traceSpan     time.Duration
}

// everything is the value of -workload for all workloads.
const everything = "all"

func parse() (settings, error) {
	s := settings{credits: []float64{0.5, 1, 2, 4, 8, 16}}
	s.Flags(3)
	s.WorkersFlag(2)
	all := append(workloads(), replays(nil, 0, 0, 0)...)
	flag.StringVar(&s.workloads, "workload", usual,
		"these, divided by commas, or "+everything+": "+strings.Join(bench.Names(all, workload.title), ", "))
	flag.Var(&s.loads, "load", "shares of the servers' capacity, divided by commas, to play each workload at "+
		"(default: its own)")
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders(), contender.title))
	flag.Var(&s.credits, "credits", "credits of exact, divided by commas, of which the best counts")
	compare.VariantFlag(func(p compare.Policy) {
		s.variants = append(s.variants, contender{Contender: router.Contender{Policy: p, Added: true}})
	})
	flag.BoolVar(&s.redis, "redis", false, "also play the policies of Warmgate with counts and index in Redis")
	flag.BoolFunc("all", "all workloads at loads 0.5, 0.8, 1 and 1.5, in Redis as well: "+
		"takes many hours", func(string) error {
		s.workloads, s.loads, s.redis = everything, []float64{0.5, 0.8, 1, 1.5}, true
		return nil
	})
	s.traceFlags()
	flag.Parse()
	return s, nil
}

// traceFlags declares the flags of the workloads that replay a trace.
func (s *settings) traceFlags() {
	flag.StringVar(&s.trace, "trace", os.Getenv("TRACE"),
		"file of the trace to replay, in Mooncake's form, .jsonl or .jsonl.gz (default $TRACE)")
	flag.IntVar(&s.traceFrom, "trace-from", 0, "number of the request of the trace to begin with; tracemid has its own")
	flag.IntVar(&s.traceRequests, "trace-requests", 2400, "requests of the trace to replay")
	flag.DurationVar(&s.traceSpan, "trace-span", 8*time.Second, "time to replay them in, without -load")
}
