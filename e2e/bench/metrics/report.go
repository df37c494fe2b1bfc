package metrics

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is the output of the benchmark.
type report struct {
	bench.Runs[result]
	settings settings
	fleet    *fleet
	policies []compare.Policy
}

func ttftP99(r *result) float64     { return bench.MS(r.Summary.TTFT.P99) }
func preemptions(r *result) float64 { return float64(r.Engines.Preemptions) }
func herdCV(r *result) float64      { return r.herd.CV }

var columns = bench.Columns[result]{
	bench.Col("TTFT mean ms", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.Mean) }),
	bench.Col("p50", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.TTFT.P50) }),
	bench.Col("p99", "%.0f", ttftP99),
	bench.Col("p99, base model", "%.0f", func(r *result) float64 { return bench.MS(r.base.P99) }),
	bench.Col("p99, adapters", "%.0f", func(r *result) float64 { return bench.MS(r.adapters.P99) }),
	bench.Col("latency p50 ms", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.Latency.P50) }),
	bench.Col("p99", "%.0f", func(r *result) float64 { return bench.MS(r.Summary.Latency.P99) }),
	bench.Col("queued, % of requests", "%.1f", (*result).queuedShare),
	bench.Col("queued request·s", "%.1f", func(r *result) float64 { return r.Queued }),
	bench.Col("queued beside an idle server, %", "%.1f", func(r *result) float64 {
		return bench.Percent(r.Placement.BesideIdle, r.Placement.Requests)
	}),
	bench.Col("… beside a free slot, %", "%.1f", func(r *result) float64 {
		return bench.Percent(r.Placement.BesideFree, r.Placement.Requests)
	}),
	bench.Col("preemptions", "%.0f", preemptions),
	bench.Col("adapter loads", "%.0f", func(r *result) float64 { return float64(r.Engines.Loads) }),
	bench.Col("work over capacity, max/mean", "%.2f", func(r *result) float64 { return r.work }),
	bench.Col("herd", "%.2f", herdCV),
	bench.Col("… by chance", "%.2f", func(r *result) float64 { return r.herd.Chance }),
	bench.Col("errors", "%.0f", func(r *result) float64 { return float64(r.Summary.Failed()) }),
}

func (rep *report) table() *bench.Table { return rep.Tabulate(columns, "median (min..max)") }

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s, c, t := rep.settings, engine(), engine().Tuning
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateway share it",
		fmt.Sprintf("gateway: the shipped plain layout, %d workers, one process for all runs, switched "+
			"by configuration", s.Workers),
		fmt.Sprintf("servers: 2 of speed 2, 4 of speed 1, 2 of speed 1 with %d KV blocks of %d tokens instead of %d; "+
			"%d sequences at once, no limit on the queue, "+
			"%d adapters in a batch and on the GPU; no policy is configured with the differences", smallCache,
			c.BlockSize, c.NumBlocks, c.MaxNumSeqs, c.MaxLoras),
		fmt.Sprintf("engine at speed 1: prefill %v ms + %v ms a token, decode step %v ms + %v ms a sequence, %v ms "+
			"to load an adapter",
			t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS, t.AdapterLoadMS),
		fmt.Sprintf("capacity: %.0f requests/s in all, by %v requests at once (slots, or what the KV cache holds on "+
			"average), without loading of adapters",
			sum(rep.fleet.capacity), rep.fleet.slots),
		fmt.Sprintf("traffic: open loop, Poisson, %.0f %% of capacity, %v a run after %v to warm up, %d rounds with "+
			"seeds from %d; prompt %+v, answer %+v tokens, streamed; %s",
			100*s.load, s.span, s.warm, s.Rounds, s.Seed, workload(0).Prompt, workload(0).Output, describeModels()),
		fmt.Sprintf("herd: coefficient of variation of the picks of an endpoint within %v, against its share of the "+
			"whole run; by chance: the same if every "+
			"request went to an endpoint at random, with these shares", window),
	}
	for _, p := range rep.policies {
		lines = append(lines, p.Name+": "+p.Describe())
	}
	return lines
}
