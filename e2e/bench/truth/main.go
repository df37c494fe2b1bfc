// Package truth measures whether what the plugin says of requests is right: against what the servers themselves know of
// them, by their own clock and their own counts of tokens, and what the clients have seen. A tenth of the clients leave
// in the middle, of the streams one in twenty breaks, and half of them have no usage.
//
// Further parts: what a flood of models and tenants that somebody has made up does to the statistics; and what all of
// it costs, by the CPU time of two gateways, one of which measures nothing.
package truth

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

type settings struct {
	bench.Settings
	requests int
	rate     float64
	flood    int
	parts    []string
}

// The parts of the benchmark, in the order in which they are run.
var allParts = []string{"requests", "flood", "cost"}

func parse() (settings, error) {
	s := settings{requests: 20_000, rate: 89, flood: 100_000}
	var parts string
	var quick bool
	s.Flags(5)
	flag.IntVar(&s.requests, "requests", s.requests, "requests that are compared")
	flag.Float64Var(&s.rate, "rate", s.rate, "requests per second")
	flag.IntVar(&s.flood, "flood", s.flood, "models that somebody has made up, and as many tenants")
	flag.BoolVar(&quick, "quick", false, "fewer requests: a minute or two")
	bench.OnlyFlag(&parts, "parts", allParts)
	flag.Parse()
	if quick {
		s.requests, s.flood = 1_500, 10_000
	}
	var err error
	s.parts, err = bench.Named(allParts, parts, func(part string) string { return part })
	return s, err
}

// Benchmark is to be played.
var Benchmark = bench.New("truth", parse, run)

// report is what was found; the last line of the output.
type report struct {
	*Errors
	Flood *Flood `json:"flood,omitempty"`
	Cost  *Cost  `json:"cpu_share,omitempty"`
}

func run(ctx context.Context, s settings) (err error) {
	var rep report
	t := &bench.Table{Head: []string{"what", "found"}}
	for _, part := range allParts {
		if !slices.Contains(s.parts, part) {
			continue
		}
		switch part {
		case "requests":
			if rep.Errors, err = Compare(ctx, Plan{Requests: s.requests, Rate: s.rate, Seed: s.Seed}); err == nil {
				rep.Errors.rows(t)
			}
		case "flood":
			if rep.Flood, err = flood(ctx, s.flood); err == nil {
				rep.Flood.rows(t)
			}
		case "cost":
			if rep.Cost, err = cost(ctx, s.Rounds); err == nil {
				t.Add("CPU time, of that without: whole answers", rep.Cost.Whole.Format("%.3f"))
				t.Add("the same of streams", rep.Cost.Streams.Format("%.3f"))
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part, err)
		}
	}
	return bench.Publish(os.Stdout, s.Markdown, nil, t, rep)
}
