// Package redis measures what the shared store costs a Redis server, against plain least-request counters on the same
// server: the server's time per reservation and release, bytes and round trips per request, and how many requests one
// core of it serves. The contenders are
//
//	warmgate  the plugin's store, redisclient.Store
//	evalsha   least request over a hash of counters, the script known to the server
//	eval      the same, the script's text sent each time, as it is published
//	hmget     the same as evalsha with all counters read by one command
//
// over cluster sizes. In every round all contenders are measured, in small turns and rotating order.
//
// Then it measures what reservations with budgets cost, at 10 targets, against the same store without budgets.
//
// Then it measures what it costs to send prompts where the beginning of them is cached, against the published way: one
// key for each block, combined by XOR. The contenders are
//
//	warmgate  the plugin's store
//	xor       as it is published: the script combines the blocks
//	keys      its best case: the client has combined them, and the script is known to the server
//
// over lengths of prompts. By turns there is a prompt of which nothing is known, and the same with another end;
// Warmgate's pages are full of others, as they are in a store that has been in use for a while. Prompts of one message
// are measured apart, at few endpoints: whatever their length, the published way has one block there.
//
// Last, it measures the longest single call of each script, because everything else waits for that: all owners but one
// die at once with thousands of requests in flight, then the counts are lost, while another owner's requests go on.
package redis

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/redisserver"
)

func parse() (settings, error) {
	s := settings{
		endpoints: []int{8, 64, 256}, prompts: []int{1, 5, 20, 64, 128}, turns: []int{256, 1024, 65536},
	}
	var quick bool
	flag.BoolVar(&quick, "quick", false, "three short rounds: a minute")
	flag.StringVar(&s.version, "version", redisserver.Default,
		"server, one of "+strings.Join(redisserver.Versions(), ", "))
	s.RoundsFlags(7)
	flag.Var(&s.endpoints, "endpoints", "cluster sizes")
	flag.Var(&s.prompts, "prompts", "lengths of prompts, in blocks")
	flag.Var(&s.turns, "turns", "lengths of prompts of one message, in bytes")
	flag.IntVar(&s.few, "few", 8, "endpoints that these are sent to")
	flag.IntVar(&s.owners, "owners", 8, "owners, each with its connection")
	flag.IntVar(&s.depth, "depth", 16, "commands that an owner sends at once")
	flag.IntVar(&s.held, "held", 2, "requests in flight per endpoint")
	flag.IntVar(&s.kinds, "kinds", 1, "kinds of endpoints, by their caps, in turns: the more, the longer "+
		"Warmgate's script takes")
	flag.IntVar(&s.calls, "calls", 4096, "reservations that are timed in a round")
	flag.DurationVar(&s.span, "span", time.Second, "time at full speed in a round")
	flag.Float64Var(&s.rate, "rate", 100, "requests/s of an owner that its heartbeats are spread over")
	flag.IntVar(&s.room, "room", 4<<20, "bytes that prompts may use when more come than there is room for")
	flag.IntVar(&s.dead, "dead", 63, "owners that die at once, for the longest script")
	flag.IntVar(&s.leases, "leases", 2000, "requests in flight of each of them, and of the owner that stays")
	flag.Parse()
	if quick {
		s.Rounds, s.calls, s.span = 3, 1024, 300*time.Millisecond
	}
	return s, s.check()
}

// check refuses settings that make no measurement.
func (s settings) check() error {
	least := min(s.Rounds, s.owners, s.depth, s.held, s.kinds, s.calls, s.room, s.dead, s.leases, s.few)
	if least < 1 || s.span <= 0 || s.rate <= 0 {
		return errors.New("every number must be positive")
	}
	return nil
}

// Benchmark is to be played.
var Benchmark = bench.New("redis", parse, run)

func run(ctx context.Context, s settings) error {
	// The server has a core of its own, where there are two.
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1))
	rep, err := collect(ctx, s, os.Stdout)
	if err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// collect starts the server, takes every measurement, and reports its progress.
func collect(ctx context.Context, s settings, progress io.Writer) (*report, error) {
	server, err := redisserver.Start(ctx, redisserver.Options{Version: s.version})
	if err != nil {
		return nil, err
	}
	rep := &report{settings: s}
	for _, n := range s.endpoints {
		var c *cell
		if c, err = compare(ctx, s, server, n, contenders, s.parts(ctx)); err != nil {
			break
		}
		rep.cells = append(rep.cells, c)
		fmt.Fprintln(progress, rep.table().Last(len(contenders)))
	}
	if err == nil {
		err = rep.collectBudgets(ctx, server)
	}
	if err == nil {
		err = rep.collectPrompts(ctx, server, progress)
	}
	if err == nil {
		err = rep.collectDeaths(ctx, server, progress)
	}
	return rep, errors.Join(err, server.Stop())
}

// collectPrompts takes the measurements with prompts.
func (rep *report) collectPrompts(ctx context.Context, server *redisserver.Server, progress io.Writer) error {
	add := func(about string, blocks, bytes, endpoints int, draw func() *prompts) error {
		c, err := comparePrompts(ctx, rep.settings, server, endpoints, draw)
		if err != nil {
			return fmt.Errorf("%s: %w", about, err)
		}
		rep.prompts = append(rep.prompts, promptCell{about, blocks, bytes, c})
		fmt.Fprintln(progress, rep.prompts[len(rep.prompts)-1])
		return nil
	}
	for _, n := range rep.settings.prompts {
		about, draw := fmt.Sprintf("a prompt of %d blocks", n), func() *prompts { return newPrompts(n) }
		if err := add(about, n, 0, promptEndpoints, draw); err != nil {
			return err
		}
	}
	for _, n := range rep.settings.turns { // one that is unknown, and the same once more, by turns
		blocks, err := turnOf(n)
		if err != nil {
			return err
		}
		about := fmt.Sprintf("one message of %d bytes, %d blocks, %d endpoints", n, len(blocks), rep.settings.few)
		draw := func() *prompts { return &prompts{blocks: slices.Clone(blocks), turns: 1} }
		if err := add(about, len(blocks), n, rep.settings.few, draw); err != nil {
			return err
		}
	}
	var err error
	if rep.memory, err = promptMemory(rep.settings, server); err != nil {
		return err
	}
	rep.bound, err = measureBound(rep.settings, server)
	return err
}
