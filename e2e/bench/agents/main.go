// Package agents compares ways to choose a server for what coding agents send: bodies with new values in front of a
// system prompt and cache markers that move, system prompts, tools and models behind long messages, pictures, answers
// that a server keeps, counts of tokens before each turn, and an adapter that three of four servers have. Envoy's
// least_request and ring_hash by session, the cache-aware routers of vLLM and SGLang, and Warmgate's prefix_cache with
// its defaults meet the same simulated servers with the same sessions, in rotating order.
package agents

import (
	"context"
	"flag"
	"os"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

type settings struct {
	bench.Settings
	sessions int
	users    int
	policies string
}

func parse() (settings, error) {
	var s settings
	var quick bool
	s.Flags(3)
	s.WorkersFlag(2)
	flag.IntVar(&s.sessions, "sessions", 96, "sessions of a round")
	flag.IntVar(&s.users, "users", 8, "sessions under way at once")
	bench.OnlyFlag(&s.policies, "policies", bench.Names(contenders(), nameOf))
	flag.BoolVar(&quick, "quick", false, "one round with a third of the sessions")
	flag.Parse()
	if quick {
		s.Rounds, s.sessions = 1, s.sessions/3
	}
	return s, nil
}

// contenders returns all, in the order of the table.
func contenders() []router.Contender {
	return []router.Contender{
		router.By(compare.LeastRequest), router.By(compare.RingHash(scripted.SessionHeader)),
		router.Behind(router.VLLM(), ""), router.Behind(router.SGLang(), ""), router.By(compare.PrefixCache),
	}
}

func nameOf(c router.Contender) string { return c.Name() }

// Benchmark is to be played.
var Benchmark = bench.New("agents", parse, run)

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s, work: write(s.Seed, s.sessions)}
	chosen, err := bench.Named(contenders(), s.policies, nameOf)
	if err != nil {
		return err
	}
	self := func(c *router.Contender) *router.Contender { return c }
	if rep.contenders, err = router.Installed(ctx, chosen, self, &rep.Notes); err != nil {
		return err
	}
	list := rep.contenders
	if err := compare.On(ctx, compare.Options{
		Workers: s.Workers, Servers: rep.work.servers(), First: compare.LeastRequest,
	}, func(stage *compare.Stage) error {
		return bench.Play(&rep.Runs, columns, "", s.Rounds, bench.Names(list, nameOf),
			func(round int) (*workload, error) { return write(s.Seed+uint64(round), s.sessions), nil },
			func(w *workload, i int) (result, error) { return play(ctx, &list[i], stage, w, s.users) })
	}); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}
