// Package sizing measures how much CPU and memory one gateway needs at given rates of requests and lengths of prompts,
// and what it adds to their latency, in paired rounds of
//
//	none      the gateway without a plugin
//	requests  Warmgate as shipped: global_least_request by requests
//	tokens    the same by tokens, which reads bodies
//	prefix    prefix_cache, which looks at the first 256 KiB of a body
//	whole     prefix_cache that looks at all of it, where a body is longer than that
//	redis     the same, or else prefix, with counts and prompts in Redis
//
// in an open loop: requests arrive at their times, whether or not earlier ones have been answered. Prompts are those of
// conversations: all but the end of each has been seen before. Model servers answer at once.
//
// One of the cells is the load for which the router of llm-d publishes its figures: 98.7 requests a second with prompts
// of 100,000 tokens, before 100 servers.
package sizing

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

type settings struct {
	bench.Settings
	span          time.Duration // of one run
	cells         []cell
	endpoints     int
	conversations int
	tokenBytes    float64 // bytes of a body for each token of its prompt
	contenders    []contender
}

// defaults are those of the command.
func defaults() settings {
	return settings{
		span: 4 * time.Second, endpoints: 100, conversations: 64, tokenBytes: 4.3, contenders: all,
	}
}

const defaultCells = "37x130,1900x530,870x1700,213x11000,98.7x100000"

func parse() (settings, error) {
	s := defaults()
	var cells, contenders string
	s.RoundsFlags(5)
	flag.DurationVar(&s.span, "span", s.span, "length of one run")
	flag.StringVar(&cells, "cells", defaultCells, "loads, each requests/s x tokens of a prompt")
	flag.IntVar(&s.endpoints, "endpoints", s.endpoints, "model servers")
	flag.IntVar(&s.conversations, "conversations", s.conversations, "how many conversations there are")
	flag.Float64Var(&s.tokenBytes, "token-bytes", s.tokenBytes, "bytes of a body for each token")
	flag.StringVar(&contenders, "contenders", "", "only these, divided by commas; the first is always played")
	flag.Parse()
	var err, err2 error
	s.cells, err = parseCells(cells)
	if contenders != "" {
		s.contenders, err2 = bench.Named(all, none+","+contenders, func(c contender) string { return c.name })
	}
	return s, errors.Join(err, err2, s.check())
}

// check refuses settings that make no measurement.
func (s settings) check() error {
	if min(s.Rounds, s.endpoints, s.conversations) < 1 || s.span < time.Second/10 || s.tokenBytes <= 0 {
		return errors.New("every number must be positive, and a run take a tenth of a second")
	}
	for _, c := range s.cells {
		if s.size(c) < minBody {
			return fmt.Errorf("a body has at least %d bytes, not %d", minBody, s.size(c))
		}
	}
	return nil
}

// Benchmark is to be played.
var Benchmark = bench.New("sizing", parse, play)

func play(ctx context.Context, s settings) error {
	up, err := bench.StartUpstream(s.endpoints)
	if err != nil {
		return err
	}
	defer up.Close()
	rep := &report{settings: s}
	for _, c := range s.cells {
		res, err := measure(ctx, s, c, up)
		if err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		rep.cells = append(rep.cells, res)
		fmt.Println(rep.table().Last(len(res.names)))
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}
