// Package placement compares ways to choose an engine in simulated time, on many loads and engines: Envoy's policies,
// hashing with bounded loads, the rule of the cache-aware routers, LMetric, one that knows everything, and the plugin's
// own code with and without the metrics of engines. It starts no gateway. The same seeds give the same figures.
package placement

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/internal/mooncake"
	"github.com/warmgate/warmgate/internal/simulate"
)

// Benchmark is to be played.
var Benchmark = bench.New("placement", parse, run)

type settings struct {
	bench.Settings
	cells    string
	policies string
	short    bool
	targets  bool // the plugin plays also with the targets of each cell
	metrics  bool // variants have the metrics of engines
	variants []compare.Policy
	trace    string
}

func parse() (settings, error) {
	s := settings{}
	s.Flags(3)
	s.LanesFlag(2)
	s.OwnFlag(ownName)
	flag.StringVar(&s.cells, "cells", "", "only cells whose names begin with one of these, divided by commas")
	flag.StringVar(&s.policies, "policies", "", "only these, divided by commas, and those of the plugin")
	flag.BoolVar(&s.short, "short", false, "a few cells")
	flag.BoolVar(&s.metrics, "variant-metrics", false, "variants have the metrics of engines")
	flag.BoolVar(&s.targets, "targets", false, "also the plugin with the targets of each cell")
	compare.VariantFlag(func(p compare.Policy) { s.variants = append(s.variants, p) })
	flag.StringVar(&s.trace, "trace", os.Getenv("TRACE"),
		"file of a trace in Mooncake's form, .jsonl or .jsonl.gz (default $TRACE)")
	flag.Parse()
	return s, s.Valid()
}

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result] // by cell
	settings           settings
	cells              []cell
	contenders         []contender
	adapts             map[string]float64 // by contender: see adapted
	decision           *decisionTimes
	fit                *fitted
}

func run(ctx context.Context, s settings) error {
	debug.SetGCPercent(simulate.GCPercent)
	rep := &report{settings: s, adapts: map[string]float64{}}
	if err := rep.choose(); err != nil {
		return err
	}
	if err := rep.play(ctx); err != nil {
		return err
	}
	if err := rep.measure(); err != nil {
		return err
	}
	if err := rep.decision.inV8(ctx, rep.settings.Seed, wasmRounds); err != nil {
		return err
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line(), rep.summary())
}

// choose takes the cells and the contenders that the settings name.
func (rep *report) choose() error {
	s := &rep.settings
	var trace []mooncake.Request
	if s.trace != "" {
		var err error
		if trace, err = mooncake.Read(s.trace); err != nil {
			return err
		}
	} else {
		rep.Note("cells of a trace: skipped; name a file by TRACE= or -trace")
	}
	for _, c := range cells(trace) {
		if s.short && !c.short || s.cells != "" && !slices.ContainsFunc(strings.Split(s.cells, ","),
			func(begin string) bool { return strings.HasPrefix(c.name, begin) }) {
			continue
		}
		rep.cells = append(rep.cells, c)
	}
	if len(rep.cells) == 0 {
		return fmt.Errorf("no cell begins with %q", s.cells)
	}
	all, err := contenders()
	if err != nil {
		return err
	}
	chosen, err := bench.Named(all, s.policies, contender.title)
	if err != nil {
		return err
	}
	for _, c := range all {
		wanted := slices.ContainsFunc(chosen, func(o contender) bool { return o.Name == c.Name })
		if wanted || c.Name == clairvoyantName || c.own() { // what is measured by, and what is measured
			rep.contenders = append(rep.contenders, c)
		}
	}
	if s.targets {
		c, err := withTargets()
		if err != nil {
			return err
		}
		rep.contenders = append(rep.contenders, c)
	}
	for _, p := range s.variants {
		c, err := variantOf(p, s.metrics)
		if err != nil {
			return fmt.Errorf("variant %s: %w", p.Name, err)
		}
		rep.contenders = append(rep.contenders, c)
	}
	if !slices.ContainsFunc(rep.contenders, func(c contender) bool { return c.own() && c.Name == s.Own }) {
		return fmt.Errorf("-own %s is none of the plugin's", s.Own)
	}
	return nil
}

// play plays all cells, each round with another seed.
func (rep *report) play(ctx context.Context) error {
	for i := range rep.cells {
		began, c := time.Now(), &rep.cells[i]
		if err := rep.playCell(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%-24s %4.1f s  %s\n", c.name, time.Since(began).Seconds(), rep.glance(c.name))
	}
	return nil
}

// measure takes the figures that belong to no cell.
func (rep *report) measure() (err error) {
	if rep.decision, err = decide(rep.settings.Seed); err != nil {
		return err
	}
	rep.fit, err = fit()
	return err
}

// playCell plays a cell with all contenders, and has the figures that depend on others.
func (rep *report) playCell(ctx context.Context, c *cell) error {
	n, rounds := len(rep.contenders), rep.settings.Rounds
	loads := make([]func() simulate.Load, rounds)
	for round := range loads {
		loads[round] = c.loads(rep.settings.Seed + uint64(round))
	}
	results := make([][]result, n)
	for i := range results {
		results[i] = make([]result, rounds)
	}
	goals := make([]target, rounds)
	play := func(ctx context.Context, round, i int) error {
		load := &recorder{Load: loads[round]()}
		r, err := simulate.Run(load, c.fleet, rep.contenders[i].with(goals[round]), rep.settings.Seed+uint64(round),
			func(int) bool { return ctx.Err() == nil })
		if err != nil {
			return fmt.Errorf("%s: %w", rep.contenders[i].Name, err)
		}
		if load.refused > 0 || r.Unplaced > 0 {
			return fmt.Errorf("%s: %d requests refused, %d without a plan", rep.contenders[i].Name, load.refused,
				r.Unplaced)
		}
		results[i][round] = resultOf(r, load.samples)
		return nil
	}
	known := rep.clairvoyant()
	err := bench.SideBySide(ctx, rep.settings.Lanes, rounds, func(ctx context.Context, _, round int) error {
		err := play(ctx, round, known)
		goals[round] = targetOf(results[known][round].samples)
		return err
	})
	if err != nil {
		return err
	}
	err = bench.SideBySide(ctx, rep.settings.Lanes, rounds*n, func(ctx context.Context, _, k int) error {
		if k%n == known {
			return nil
		}
		return play(ctx, k/n, k%n)
	})
	if err != nil {
		return err
	}
	rep.score(c, goals, results)
	return nil
}

// clairvoyant returns which contender sets the targets.
func (rep *report) clairvoyant() int {
	return slices.IndexFunc(rep.contenders, func(c contender) bool { return c.Name == clairvoyantName })
}

// score adds to results what they are in comparison, and keeps them without their samples.
func (rep *report) score(c *cell, goals []target, results [][]result) {
	for round, t := range goals {
		for i := range results {
			results[i][round].goodput = t.met(results[i][round].samples)
		}
	}
	for i := range results {
		name := rep.contenders[i].Name
		if c.halves > 0 {
			if s, ok := adapted(results[i], c.halves); ok {
				rep.adapts[name] = s
			}
		}
		for round := range results[i] {
			results[i][round].samples = nil
		}
		rep.Add(c.name, name, results[i]...)
	}
}
