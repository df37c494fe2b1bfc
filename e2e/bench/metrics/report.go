package main

import (
	"fmt"
	"io"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// report is everything the benchmark says.
type report struct {
	settings settings
	fleet    *fleet
	policies []compare.Policy
	results  [][]result // by policy, then by round
}

// column is one measured quantity.
type column struct {
	head string
	verb string
	get  func(*result) float64
}

func ttftP99(r *result) float64     { return ms(r.Summary.TTFT.P99) }
func preemptions(r *result) float64 { return float64(r.Engines.Preemptions) }
func herdCV(r *result) float64      { return r.herd.CV }

var columns = []column{
	{"TTFT mean ms", "%.0f", func(r *result) float64 { return ms(r.Summary.TTFT.Mean) }},
	{"p50", "%.0f", func(r *result) float64 { return ms(r.Summary.TTFT.P50) }},
	{"p99", "%.0f", ttftP99},
	{"p99, base model", "%.0f", func(r *result) float64 { return ms(r.base.P99) }},
	{"p99, adapters", "%.0f", func(r *result) float64 { return ms(r.adapters.P99) }},
	{"latency p50 ms", "%.0f", func(r *result) float64 { return ms(r.Summary.Latency.P50) }},
	{"p99", "%.0f", func(r *result) float64 { return ms(r.Summary.Latency.P99) }},
	{"queued, % of requests", "%.1f", (*result).queuedShare},
	{"queued request·s", "%.1f", func(r *result) float64 { return r.Queued }},
	{"queued beside an idle server, %", "%.1f", func(r *result) float64 {
		return percent(r.Placement.BesideIdle, r.Placement.Requests)
	}},
	{"… beside a free slot, %", "%.1f", func(r *result) float64 {
		return percent(r.Placement.BesideFree, r.Placement.Requests)
	}},
	{"preemptions", "%.0f", preemptions},
	{"adapter loads", "%.0f", func(r *result) float64 { return float64(r.Engines.Loads) }},
	{"work over capacity, max/mean", "%.2f", func(r *result) float64 { return r.work }},
	{"herd", "%.2f", herdCV},
	{"… by chance", "%.2f", func(r *result) float64 { return r.herd.Chance }},
	{"errors", "%.0f", func(r *result) float64 { return float64(r.Summary.Failed()) }},
}

// values returns one quantity of one policy, round by round.
func (rep *report) values(policy int, get func(*result) float64) []float64 {
	out := make([]float64, len(rep.results[policy]))
	for i := range out {
		out[i] = get(&rep.results[policy][i])
	}
	return out
}

func (rep *report) table() *bench.Table {
	t := &bench.Table{Head: []string{"median (min..max)"}}
	for _, c := range columns {
		t.Head = append(t.Head, c.head)
	}
	for p, policy := range rep.policies {
		row := []string{policy.Name}
		for _, c := range columns {
			row = append(row, bench.SpreadOf(rep.values(p, c.get)).Format(c.verb))
		}
		t.Add(row...)
	}
	return t
}

// configuration says what was compared, in full.
func (rep *report) configuration() []string {
	s, c, t := rep.settings, engine(), engine().Tuning
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateway share it",
		fmt.Sprintf("gateway: the shipped plain layout, %d workers, one process for all runs, switched by configuration", s.workers),
		fmt.Sprintf("servers: 2 of speed 2, 4 of speed 1, 2 of speed 1 with %d KV blocks of %d tokens instead of %d; %d sequences at once, no limit on the queue, "+
			"%d adapters in a batch and on the GPU; no policy is told", smallCache, c.BlockSize, c.NumBlocks, c.MaxNumSeqs, c.MaxLoras),
		fmt.Sprintf("engine at speed 1: prefill %v ms + %v ms a token, decode step %v ms + %v ms a sequence, %v ms to load an adapter",
			t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS, t.AdapterLoadMS),
		fmt.Sprintf("capacity: %.0f requests/s in all, by %v requests at once (slots, or what the KV cache holds on average), without loading of adapters",
			sum(rep.fleet.capacity), rep.fleet.slots),
		fmt.Sprintf("traffic: open loop, Poisson, %.0f %% of capacity, %v a run after %v to warm up, %d rounds with seeds from %d; prompt %+v, answer %+v tokens, streamed; %s",
			100*s.load, s.span, s.warm, s.rounds, s.seed, workload(0).Prompt, workload(0).Output, describeModels()),
		fmt.Sprintf("herd: coefficient of variation of the picks of an endpoint within %v, against its share of the whole run; by chance: the same if every "+
			"request went to an endpoint at random, with these shares", window),
	}
	for _, p := range rep.policies {
		about := p.Name + ": " + p.Describe()
		if p.Module != "" {
			about += ", in a module of its own that is for comparison only"
		}
		lines = append(lines, about)
	}
	return lines
}

// publish prints the report, and saves it where the settings say.
func (rep *report) publish(w io.Writer) error {
	return bench.Publish(w, rep.settings.markdown, rep.configuration(), rep.table(), rep.line())
}
