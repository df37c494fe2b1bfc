package ranks

import (
	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/internal/simulate"
)

// result is what one contender did in one cell.
type result struct {
	*simulate.Result
	uneven float64 // tokens that the busiest rank has computed, over the mean of all
}

func tokens(r *result) float64 { return r.TokensPer }
func uneven(r *result) float64 { return r.uneven }

var columns = bench.Columns[result]{
	bench.Col("tokens/s", "%.0f", tokens),
	bench.Col("max/mean of ranks", "%.3f", uneven),
	bench.Col("TTFT mean ms", "%.0f", func(r *result) float64 { return 1e3 * r.TTFT.Mean }),
	bench.Col("p99", "%.0f", func(r *result) float64 { return 1e3 * r.TTFT.P99 }),
	bench.Col("ms per token", "%.1f", func(r *result) float64 { return 1e3 * r.PerToken }),
	bench.Col("cached share", "%.3f", func(r *result) float64 { return r.Cached }),
}

// report is the output of the benchmark.
type report struct {
	bench.Runs[result] // by cell
	settings           settings
}

func (rep *report) table() *bench.Table {
	return rep.Tabulate(columns, "cell, who chooses: median (min..max)")
}

// line returns the last line of the output, each figure in the worst cell: how uneven the ranks are where the plugin
// chooses, and tokens a second over where servers do.
func (rep *report) line() bench.Line {
	l := bench.Line{"bench": "ranks", "rounds": rep.settings.Rounds}
	for _, c := range cells() {
		l.Worst("max_over_mean", *rep.Median(c.name, ownName, uneven), true)
		l.Worst("tokens_vs_vllm", rep.Ratio(c.name, ownName, contenders[1].name, tokens).Median, false)
		l.Worst("tokens_vs_in_turn", rep.Ratio(c.name, ownName, contenders[2].name, tokens).Median, false)
	}
	return l
}
