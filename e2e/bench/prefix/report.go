package prefix

import (
	"fmt"
	"math"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result] // by workload
	settings           settings
	workloads          []workload
	contenders         []contender
	sweeps             []string // what exact did with each of its credits, by workload, in words
}

// played returns what is played for the contenders: exact once with each of its credits.
func (rep *report) played() []contender {
	var out []contender
	for _, c := range rep.contenders {
		if c.Name() != exactName {
			out = append(out, c)
			continue
		}
		for _, credit := range rep.settings.credits {
			out = append(out, c.with(credit))
		}
	}
	return out
}

// keep takes the results of one more workload, by what was played. Of exact it keeps those with the credit whose mean
// TTFT is lowest.
func (rep *report) keep(workload string, played []contender, of bench.Runs[result]) {
	var kept []result
	best := math.Inf(1)
	var tried []string
	for _, c := range played {
		runs := of.Of(workload, c.Name())
		if c.credit == 0 {
			rep.Add(workload, c.Name(), runs...)
			continue
		}
		rep.Add(workload, exactName) // its place in the table
		ttft := bench.SpreadBy(runs, ttftMean)
		found := bench.SpreadBy(runs, cached)
		tried = append(tried, fmt.Sprintf("%v: %s ms, %s", c.credit, ttft.Format("%.1f"), found.Format("%.3f")))
		if ttft.Median < best {
			best, kept = ttft.Median, runs
		}
	}
	if kept != nil {
		rep.Add(workload, exactName, kept...)
		rep.sweeps = append(rep.sweeps, fmt.Sprintf(
			"exact on %s: %.1f ms is the best mean TTFT; by credit, with the cached share: %s",
			workload, best, strings.Join(tried, "; ")))
	}
}

func cached(r *result) float64   { return r.cached }
func uneven(r *result) float64   { return r.uneven }
func ttftMean(r *result) float64 { return bench.MS(r.summary.TTFT.Mean) }
func ttftP99(r *result) float64  { return bench.MS(r.summary.TTFT.P99) }
func tokens(r *result) float64   { return float64(r.summary.Tokens) / r.summary.Elapsed.Seconds() }
func failed(r *result) float64   { return float64(r.summary.Failed()) }

var columns = bench.Columns[result]{
	bench.Col("cached share", "%.3f", cached),
	bench.Col("TTFT mean ms", "%.1f", ttftMean),
	bench.Col("p50", "%.1f", func(r *result) float64 { return bench.MS(r.summary.TTFT.P50) }),
	bench.Col("p90", "%.1f", func(r *result) float64 { return bench.MS(r.summary.TTFT.P90) }),
	bench.Col("p99", "%.1f", ttftP99),
	bench.Col("latency p99 ms", "%.0f", func(r *result) float64 { return bench.MS(r.summary.Latency.P99) }),
	bench.Col("tokens/s", "%.0f", tokens),
	bench.Col("errors", "%.0f", failed),
	bench.Col("max/mean per server", "%.2f", uneven),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("workload, policy: median (min..max)")
	t.Head = append(t.Head, "cached, of exact's", "TTFT mean, of exact's")
	rep.Each(func(workload, name string, runs []result) {
		row := columns.Row(runs, workload+", "+name)
		for _, of := range []func(*result) float64{cached, ttftMean} {
			cell := "" // exact was not played
			if s := rep.over(workload, name, exactName, of); s != nil {
				cell = s.Format("%.3f")
			}
			row = append(row, cell)
		}
		t.Add(row...)
	})
	return t
}

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{"every request carries its session in " + scripted.SessionHeader}
	for i := range rep.workloads {
		w := &rep.workloads[i]
		lines = append(lines, fmt.Sprintf("workload %s: %s; %d servers of %s", w.name, w.traffic(), w.servers,
			compare.Describe(w.server)))
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].Name()+": "+rep.contenders[i].Describe())
	}
	lines = append(append(lines, rep.sweeps...), rep.predictionLines()...)
	return append(lines, rep.Notes...)
}

// traffic returns what the workload sends, and how much that is.
func (w *workload) traffic() string {
	how := fmt.Sprintf("%d at once", w.users)
	if w.users == 0 {
		how = fmt.Sprintf("in %.1f s, open loop", w.span.Seconds())
	}
	c := w.capacity
	return fmt.Sprintf("%d %s; %s, which is %.2f of the capacity: %.0f requests/s, %.0f requests in batches",
		w.n, w.about, how, c.load(w), c.rate, c.batch)
}

// predictionLines returns how accurate the contenders' predictions of cached shares were.
func (rep *report) predictionLines() (out []string) {
	rep.Each(func(workload, name string, runs []result) {
		spread := func(get func(*prediction) float64) bench.Spread {
			return bench.SpreadBy(runs, func(r *result) float64 { return get(&r.prediction) })
		}
		if spread(func(p *prediction) float64 { return float64(p.Requests) }).Max == 0 {
			return
		}
		predicted := spread(func(p *prediction) float64 { return p.Predicted })
		reported := spread(func(p *prediction) float64 { return p.Reported })
		off := spread(func(p *prediction) float64 { return p.Off })
		out = append(out, fmt.Sprintf("prediction of %s on %s: cached share predicted %s, reported by the servers %s, "+
			"off by %s of the prompt on average", name, workload, predicted.Format("%.3f"), reported.Format("%.3f"),
			off.Format("%.3f")))
	})
	return out
}
