package main

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// report is everything the benchmark says.
type report struct {
	settings   settings
	notes      []string
	workloads  []workload
	contenders []contender
	results    [][][]result // by workload, then by contender, then by round
}

// column is one measured quantity.
type column struct {
	head string
	verb string
	get  func(*result) float64
}

func cached(r *result) float64   { return r.cached }
func uneven(r *result) float64   { return r.uneven }
func ttftMean(r *result) float64 { return ms(r.summary.TTFT.Mean) }
func ttftP99(r *result) float64  { return ms(r.summary.TTFT.P99) }
func tokens(r *result) float64   { return float64(r.summary.Tokens) / r.summary.Elapsed.Seconds() }
func failed(r *result) float64   { return float64(r.summary.Failed()) }

var columns = []column{
	{"cached share", "%.3f", cached},
	{"TTFT mean ms", "%.1f", ttftMean},
	{"p50", "%.1f", func(r *result) float64 { return ms(r.summary.TTFT.P50) }},
	{"p90", "%.1f", func(r *result) float64 { return ms(r.summary.TTFT.P90) }},
	{"p99", "%.1f", ttftP99},
	{"latency p99 ms", "%.0f", func(r *result) float64 { return ms(r.summary.Latency.P99) }},
	{"tokens/s", "%.0f", tokens},
	{"errors", "%.0f", failed},
	{"max/mean per server", "%.2f", uneven},
}

// values returns one quantity, round by round.
func values(rounds []result, get func(*result) float64) []float64 {
	out := make([]float64, len(rounds))
	for i := range rounds {
		out[i] = get(&rounds[i])
	}
	return out
}

func (rep *report) table() *bench.Table {
	t := &bench.Table{Head: []string{"workload, policy: median (min..max)"}}
	for _, c := range columns {
		t.Head = append(t.Head, c.head)
	}
	for w := range rep.workloads {
		for c := range rep.contenders {
			row := []string{rep.workloads[w].name + ", " + rep.contenders[c].name}
			for _, col := range columns {
				row = append(row, bench.SpreadOf(values(rep.results[w][c], col.get)).Format(col.verb))
			}
			t.Add(row...)
		}
	}
	return t
}

// configuration says what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateway share it",
		fmt.Sprintf("gateway: the shipped plain layout, %d workers, the same process for all policies of a workload, switched by configuration", s.workers),
		fmt.Sprintf("%d rounds with seeds from %d; caches are emptied before each run; every request streams and carries its session in %s", s.rounds, s.seed, sessionHeader),
	}
	for i := range rep.workloads {
		w := &rep.workloads[i]
		c, t := w.server, w.server.Tuning
		lines = append(lines, fmt.Sprintf("workload %s: %s; %d servers of %d sequences at once and %d cached tokens, prefill %v ms + %v ms a token, decode step %v ms + %v ms a sequence",
			w.name, w.about, w.servers, c.MaxNumSeqs, c.NumBlocks*c.BlockSize, t.PrefillOverheadMS, t.PrefillTokenMS, t.DecodeStepMS, t.DecodeSeqMS))
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].name+": "+rep.contenders[i].describe())
	}
	lines = append(lines, rep.predictionLines()...)
	return append(lines, rep.notes...)
}

// predictionLines says how well those who predict what is cached knew it.
func (rep *report) predictionLines() []string {
	var out []string
	for w := range rep.workloads {
		for c := range rep.contenders {
			rounds := rep.results[w][c]
			if n := values(rounds, func(r *result) float64 { return float64(r.prediction.Requests) }); slices.Max(n) == 0 {
				continue
			}
			spread := func(get func(*prediction) float64) string {
				return bench.SpreadOf(values(rounds, func(r *result) float64 { return get(&r.prediction) })).Format("%.3f")
			}
			out = append(out, fmt.Sprintf("prediction of %s on %s: cached share foretold %s, told by the servers %s, off by %s of the prompt on average",
				rep.contenders[c].name, rep.workloads[w].name, spread(func(p *prediction) float64 { return p.Predicted }),
				spread(func(p *prediction) float64 { return p.Told }), spread(func(p *prediction) float64 { return p.Off })))
		}
	}
	return out
}

// rounds returns what a policy did with a workload, or nothing if either was not played.
func (rep *report) rounds(load, policy string) []result {
	w := slices.IndexFunc(rep.workloads, func(w workload) bool { return w.name == load })
	c := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == policy })
	if w < 0 || c < 0 {
		return nil
	}
	return rep.results[w][c]
}
