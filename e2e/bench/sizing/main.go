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
	"strings"
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

// report is the output of the benchmark.
type report struct {
	settings settings
	cells    []*result
}

var columns = bench.Columns[run]{
	bench.Col("cores", "%.3f", func(r *run) float64 { return r.cores }),
	bench.Col("µs/request", "%.0f", (*run).perRequest),
	bench.Col("µs over none", "%.0f", func(r *run) float64 { return r.perRequest() - r.base.perRequest() }),
	bench.Col("RSS MiB", "%.0f", func(r *run) float64 { return r.rss }),
	bench.Col("p50 ms", "%.2f", func(r *run) float64 { return r.p50 }),
	bench.Col("p99 ms", "%.2f", func(r *run) float64 { return r.p99 }),
	bench.Col("p50 ms added", "%.2f", func(r *run) float64 { return r.p50 - r.base.p50 }),
	bench.Col("p99 ms added", "%.2f", func(r *run) float64 { return r.p99 - r.base.p99 }),
	bench.Col("Redis cores", "%.3f", func(r *run) float64 { return r.redisCores }),
	bench.Col("Redis MiB", "%.1f", func(r *run) float64 { return r.redisMemory }),
}

// perRequest is Envoy's CPU time for a request, in µs.
func (r *run) perRequest() float64 { return r.cores / r.rate * 1e6 }

func (rep *report) table() *bench.Table {
	t := columns.Table("load, plugin: median (min..max)")
	for _, res := range rep.cells {
		for i, name := range res.names {
			t.Add(columns.Row(res.runs[i], res.cell.name()+", "+name)...)
		}
	}
	return t
}

func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		fmt.Sprintf("prompts: conversations with turns of about %d bytes, of which the last %.0f %% are new in each "+
			"request",
			turnBytes, 100*newShare),
		"CPU: user and kernel time of Envoy, from /proc, and of Redis, by INFO; latency: from when a request was due",
	}
	for _, con := range s.contenders {
		if con.policy != "" {
			lines = append(lines, con.name+": "+con.config())
		}
	}
	for _, res := range rep.cells {
		lines = append(lines, res.describe())
	}
	return lines
}

// describe tells what a cell's figures are of, and what limited them.
func (res *result) describe() string {
	s, c := res.settings, res.cell
	text := fmt.Sprintf("%s: bodies of %d bytes", c.name(), s.size(c))
	for i, con := range s.of(c) {
		if share := s.looked(c, con); share > 0 && share < 1 {
			text += fmt.Sprintf(", of which %s reads %.0f %%", con.name, 100*share)
		}
		if share := res.known[i]; share > 0 && share < 1 {
			text += fmt.Sprintf(", %s can find the first %.0f %% of a prompt in its index", con.name, 100*share)
		}
	}
	var own, machine, late float64
	for _, runs := range res.runs {
		own = max(own, bench.SpreadBy(runs, func(r *run) float64 { return r.own }).Median)
		machine = max(machine, bench.SpreadBy(runs, func(r *run) float64 { return r.machine }).Median)
		late = max(late, bench.SpreadBy(runs, func(r *run) float64 { return r.late }).Median)
	}
	text += fmt.Sprintf("; clients and servers use up to %.2f cores, everything up to %.0f %% of the machine, and "+
		"p99 of the clients' delay is up to %.1f ms", own, 100*machine, late)
	if names := res.limited(); len(names) > 0 {
		text += "; NOT the gateway but the clients or the machine were the limit in " + strings.Join(names, ", ")
	}
	return text
}

// limited returns the contenders in most of whose runs the gateway was not given its load: answers came more slowly
// than requests were due, the clients were late, or the machine had nothing left.
func (res *result) limited() (names []string) {
	const enough, latest, full = 0.95, 5, 0.9 // of the rate; ms; of the machine
	for i, name := range res.names {
		n := 0
		for _, r := range res.runs[i] {
			// The times are random, the same for all: what the first of them reached, they all can.
			if r.rate < enough*res.cell.rate && r.rate < enough*r.base.rate || r.late > latest || r.machine > full {
				n++
			}
		}
		if 2*n > len(res.runs[i]) {
			names = append(names, name)
		}
	}
	return names
}

// line returns the last line of the output. Figures are medians over the rounds.
func (rep *report) line() bench.Line {
	s := rep.settings
	var cells []bench.Line
	for _, res := range rep.cells {
		plugins, cons := map[string]bench.Line{}, s.of(res.cell)
		for i, name := range res.names {
			plugins[name] = figures(res.runs[i])
			plugins[name]["body_read"] = s.looked(res.cell, cons[i]) // the share
			plugins[name]["prompt_known"] = res.known[i]             // the share that can be in the index
		}
		c := bench.Line{
			"rate_rps": res.cell.rate, "prompt_tokens": res.cell.tokens, "body_bytes": s.size(res.cell),
			"plugins": plugins,
		}
		if names := res.limited(); len(names) > 0 {
			c["limited_by_the_machine"] = names
		}
		cells = append(cells, c)
	}
	return bench.Line{
		"bench": "sizing", "rounds": s.Rounds, "endpoints": s.endpoints, "conversations": s.conversations,
		"cells": cells,
	}
}

func figures(runs []run) bench.Line {
	l := bench.Line{"cores": bench.SpreadBy(runs, columns[0].Of)}
	bench.Medians(l, runs, map[string]func(*run) float64{
		"us_per_request": (*run).perRequest, "us_added": columns[2].Of, "rss_mib": columns[3].Of,
		"p50_ms": columns[4].Of, "p99_ms": columns[5].Of, "p50_added_ms": columns[6].Of, "p99_added_ms": columns[7].Of,
		"rate_seen_rps":      func(r *run) float64 { return r.rate },
		"client_late_p99_ms": func(r *run) float64 { return r.late },
	})
	if runs[0].redisRSS > 0 {
		bench.Medians(l, runs, map[string]func(*run) float64{
			"redis_cores": columns[8].Of, "redis_used_mib": columns[9].Of,
			"redis_rss_mib": func(r *run) float64 { return r.redisRSS },
		})
	}
	return l
}
