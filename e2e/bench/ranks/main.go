// Package ranks compares who chooses among the data-parallel ranks of servers, in simulated time: the plugin, which
// takes each for an endpoint, or the server, by what vLLM and SGLang do, behind the plugin or Envoy's least_request.
// The steps of a server's ranks begin and end together, as those of a model whose experts are spread over all of them,
// or not, as those of a dense one. The same seeds give the same figures.
package ranks

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/simulate"
	"github.com/warmgate/warmgate/plugin/config"
)

// Benchmark is to be played.
var Benchmark = bench.New("ranks", parse, run)

type settings struct {
	bench.Settings
	servers, ranks int
	quick          bool
}

func parse() (settings, error) {
	s := settings{}
	s.Flags(3)
	s.LanesFlag(2)
	flag.IntVar(&s.servers, "servers", 2, "servers")
	flag.IntVar(&s.ranks, "ranks", 8, "ranks of each")
	flag.BoolVar(&s.quick, "quick", false, "one round with a tenth of the requests")
	flag.Parse()
	if s.quick {
		s.Rounds = 1
	}
	if s.servers < 1 || s.ranks < 2 {
		return s, fmt.Errorf("-servers %d, -ranks %d: want at least 1 and 2", s.servers, s.ranks)
	}
	return s, s.Valid()
}

// contender is who chooses among servers, and among their ranks.
type contender struct {
	name       string
	policy     string // of the plugin, "" for Envoy's least_request
	ranks      bool   // it chooses the rank; else the server does
	roundRobin bool   // as SGLang does, else as vLLM does
}

const ownName = "prefix_cache, ranks"

var contenders = []contender{
	{name: ownName, policy: "prefix_cache", ranks: true},
	{name: "prefix_cache, vLLM's choice", policy: "prefix_cache"},
	{name: "prefix_cache, in turn", policy: "prefix_cache", roundRobin: true},
	{name: "global_least_request, ranks", policy: "global_least_request", ranks: true},
	{name: "least_request, vLLM's choice"},
	{name: "least_request, in turn", roundRobin: true},
}

func (c contender) title() string { return c.name }

// player returns the contender as simulations have it.
func (c *contender) player(ranks int) (simulate.Contender, error) {
	if c.policy == "" {
		return simulate.OfPolicy("least_request")
	}
	text := fmt.Sprintf(`{"lb_policy":%q}`, c.policy)
	if c.ranks {
		text = fmt.Sprintf(`{"lb_policy":%q,"lb_config":{"ranks":{"enabled":true,"count":%d}}}`, c.policy, ranks)
	}
	return simulate.ParseContender(c.name, []byte(text), config.Higress)
}

// cell is a load before servers.
type cell struct {
	name, about string
	together    bool
	load        simulate.Sessions
}

// cells are conversations behind system prompts that many share, and ones with long prompts of their own, for all of
// which caches have room or not.
func cells() (all []cell) {
	chat := simulate.Sessions{
		Users: 640, Requests: 16000, Prompts: 37, System: 2903, Turns: 5, Question: 401, Answer: 149,
		Think: 2 * time.Second,
	}
	long := simulate.Sessions{
		Users: 120, Requests: 6000, System: 6007, Turns: 5, Question: 797, Answer: 211, Think: 2 * time.Second,
	}
	full := long
	full.Users = 320
	for _, together := range []bool{true, false} {
		model := "dense"
		if together {
			model = "experts"
		}
		all = append(all,
			cell{model + ", shared prompts", "conversations behind 37 system prompts", together, chat},
			cell{model + ", own prompts", "conversations with long prompts of their own", together, long},
			cell{model + ", caches too small", "more of these than caches have room for", together, full})
	}
	return all
}

// rank is an engine, about a large model on eight GPUs of which each has a rank.
func rank() simulate.Engine {
	return simulate.Engine{
		Config: enginesim.Config{
			MaxNumSeqs: 64, MaxQueued: -1, NumBlocks: 8009, MaxBatchedTokens: 4096, MaxModelLen: 1 << 17,
		}.WithDefaults(),
		Times: enginesim.Times{
			Speed: 1, PrefillOverheadMS: 3, PrefillTokenMS: 0.066, DecodeStepMS: 17.3, DecodeSeqMS: 0.17,
		},
	}
}

func run(ctx context.Context, s settings) error {
	debug.SetGCPercent(simulate.GCPercent)
	rep := &report{settings: s}
	for _, c := range cells() {
		if s.quick {
			c.load.Requests /= 10
		}
		if err := bench.PlaySideBySide(ctx, &rep.Runs, columns, c.name, s.Lanes, s.Rounds,
			bench.Names(contenders, contender.title),
			func(ctx context.Context, _, round, i int) (result, error) {
				return s.play(ctx, &c, &contenders[i], s.Seed+uint64(round))
			}); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, s.configuration(), rep.table(), rep.line())
}

func (s *settings) configuration() []string {
	lines := []string{fmt.Sprintf("%d servers of %d ranks, each with %d slots and %d tokens of KV cache", s.servers,
		s.ranks, rank().Config.MaxNumSeqs, rank().Config.NumBlocks*rank().Config.BlockSize)}
	for _, c := range cells() {
		l := &c.load
		lines = append(lines, fmt.Sprintf("%s: %s, %d users, %d requests", c.name, c.about, l.Users, l.Requests))
	}
	return lines
}

// recorder adds up what each rank computes.
type recorder struct {
	simulate.Load
	computed []float64 // tokens by rank: of prompts that were not cached, and of answers
}

func (r *recorder) Ended(now time.Duration, number int, q *simulate.Request, served bool) {
	if served {
		prompt := 0
		for i := range q.Prompt {
			prompt += q.Prompt[i].Tokens
		}
		r.computed[q.Server()] += float64(prompt - q.Cached() + q.Answer)
	}
	r.Load.Ended(now, number, q, served)
}

// play plays a load before servers whose ranks a contender, or they themselves, choose among.
func (s *settings) play(ctx context.Context, c *cell, of *contender, seed uint64) (result, error) {
	n := s.servers * s.ranks
	layout := simulate.Alone(simulate.Alike(n, rank()))
	layout.Pools[0].Ranks = simulate.Ranks{Of: s.ranks, Together: c.together, RoundRobin: of.roundRobin}
	player, err := of.player(s.ranks)
	if err != nil {
		return result{}, err
	}
	load := &recorder{Load: c.load.New(seed), computed: make([]float64, n)}
	r, err := layout.Run(load, player, seed, func(int) bool { return ctx.Err() == nil })
	if err != nil {
		return result{}, err
	}
	if len(r.Refused) > 0 || r.Unplaced > 0 {
		return result{}, fmt.Errorf("%v refused, %d without a plan", r.Refused, r.Unplaced)
	}
	sum := 0.0
	for _, tokens := range load.computed {
		sum += tokens
	}
	return result{r, slices.Max(load.computed) * float64(n) / sum}, nil
}
