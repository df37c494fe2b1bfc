// Command agents compares ways to choose a server for what coding agents send: bodies with new values in front of a
// system prompt and cache markers that move, system prompts, tools and models behind long messages, pictures, answers
// that a server keeps, counts of tokens before each turn, and an adapter that three of four servers have. Envoy's
// least_request and ring_hash by session, the cache-aware routers of vLLM and SGLang, and Warmgate's prefix_cache with
// its defaults meet the same simulated servers with the same sessions, in rotating order.
//
// The last line of its output is one JSON object.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/router"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
	"github.com/warmgate/warmgate/e2e/harness"
)

type settings struct {
	rounds   int
	sessions int
	users    int
	workers  int
	seed     uint64
	policies string
	markdown string
}

func parse() (settings, error) {
	var s settings
	var quick bool
	flag.IntVar(&s.rounds, "rounds", 3, "paired rounds")
	flag.IntVar(&s.sessions, "sessions", 96, "sessions of a round")
	flag.IntVar(&s.users, "users", 8, "sessions under way at once")
	flag.IntVar(&s.workers, "workers", 2, "worker threads of the gateway")
	flag.Uint64Var(&s.seed, "seed", 1, "seed of the first round")
	flag.StringVar(&s.policies, "policies", "",
		"only these, divided by commas: "+strings.Join(bench.Names(contenders(), contender.title), ", "))
	flag.BoolVar(&quick, "quick", false, "one round with a third of the sessions")
	flag.StringVar(&s.markdown, "markdown", "", "also write the table to this file, as Markdown")
	flag.Parse()
	if quick {
		s.rounds, s.sessions = 1, s.sessions/3
	}
	return s, nil
}

// contender is one way to find the server for a request.
type contender struct {
	policy compare.Policy // of the gateway; of a router only its name
	router *router.Router // in the gateway's place; nil = none
	fresh  bool           // the client opens a connection for each request
}

func (c contender) title() string { return c.policy.Name }

// contenders returns all, in the order of the table.
func contenders() []contender {
	behind := func(r *router.Router, fresh bool) contender {
		return contender{policy: compare.Policy{Name: r.Name}, router: r, fresh: fresh}
	}
	return []contender{
		{policy: compare.LeastRequest},
		{policy: compare.RingHash(scripted.SessionHeader)},
		behind(router.VLLM(), false), behind(router.SGLang(), true),
		{policy: compare.PrefixCache},
	}
}

func (c *contender) describe() string {
	if c.router != nil {
		return c.title() + ": " + c.router.Describe() + "; all sessions as chats, because it has no route for messages"
	}
	return c.title() + ": " + c.policy.Describe()
}

func main() { bench.Main("agents", parse, run) }

func run(ctx context.Context, s settings) error {
	rep := &report{settings: s, work: write(s.seed, s.sessions)}
	chosen, err := bench.Named(contenders(), s.policies, contender.title)
	if err != nil {
		return err
	}
	for _, c := range chosen {
		if c.router != nil {
			if err := c.router.Install(ctx); err != nil {
				note := fmt.Sprintf("%s: left out, cannot be installed: %v", c.title(), err)
				fmt.Println(note)
				rep.notes = append(rep.notes, note)
				continue
			}
		}
		rep.contenders = append(rep.contenders, c)
	}
	if err := rep.play(ctx); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.markdown, rep.configuration(), rep.table(), rep.line())
}

// play has every contender play once a round.
func (rep *report) play(ctx context.Context) error {
	module, err := harness.Wasm(ctx, harness.HostEnvoy)
	if err != nil {
		return err
	}
	s := rep.settings
	stage, err := compare.NewStage(ctx, compare.Options{
		Workers: s.workers, Servers: rep.work.servers(), Module: module, First: compare.LeastRequest,
	})
	if err != nil {
		return err
	}
	var w *workload
	rep.results, err = bench.Rounds(s.rounds, len(rep.contenders), func(round int) error {
		w = write(s.seed+uint64(round), s.sessions)
		return nil
	}, func(round, i int) (result, error) {
		c := &rep.contenders[i]
		r, err := c.play(ctx, stage, w, s.users)
		if err != nil {
			return r, fmt.Errorf("%s: %w", c.title(), err)
		}
		fmt.Printf("round %d  %-14s  %s\n", round+1, c.title(), r)
		return r, nil
	})
	return errors.Join(err, stage.Close())
}
