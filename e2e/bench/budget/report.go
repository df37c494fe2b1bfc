package budget

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// report is the output of the benchmark.
type report struct {
	bench.Runs[result]
	settings   settings
	contenders []contender
	costs      []costs // by round
}

func makespan(r *result) float64    { return r.makespan.Seconds() }
func overPerfect(r *result) float64 { return r.makespan.Seconds() / r.perfect.Seconds() }
func shareError(r *result) float64  { return 100 * r.shareError }
func tpmExcess(r *result) float64   { return r.tpmExcess }
func waitRatio(r *result) float64   { return r.waitRatio() }
func stampeded(r *result) float64   { return r.stampede }
func audit(r *result) float64       { return float64(r.audit()) }

func refused(r *result) float64 {
	sum := 0
	for _, n := range r.refused {
		sum += n
	}
	return float64(sum)
}

var columns = bench.Columns[result]{
	bench.Col("makespan, s", "%.1f", makespan),
	bench.Col("over perfect", "%.2f", overPerfect),
	bench.Col("share error, %", "%.1f", shareError),
	bench.Col("tokens over rate + burst", "%.3f", tpmExcess),
	bench.Col("calls refused by models", "%.0f", refused),
	bench.Col("p99 wait of large, s", "%.2f", func(r *result) float64 { return r.waitLarge.Seconds() }),
	bench.Col("of median, s", "%.2f", func(r *result) float64 { return r.waitMedian.Seconds() }),
	bench.Col("asks, or calls, in 100 ms over mean", "%.2f", stampeded),
	bench.Col("asks, or calls", "%.0f", func(r *result) float64 { return float64(r.asks) }),
	bench.Col("back after, s", "%.2f", func(r *result) float64 { return r.deaths.back.Seconds() }),
	bench.Col("audit", "%.0f", audit),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("contender: median (min..max)")
	t.Head = slices.Insert(t.Head, 2, "of batches'")
	rep.Each(func(_, name string, rs []result) {
		ratio := "–"
		if over := rep.Ratio("", name, batchesName, makespan); over != nil {
			ratio = over.Format("%.2f")
		}
		t.Add(slices.Insert(columns.Row(rs, name), 2, ratio)...)
	})
	return t
}

// further returns the table of the cost, if that was measured.
func (rep *report) further() []*bench.Table {
	if rep.costs == nil {
		return nil
	}
	t := costColumns.Table("median (min..max)")
	t.Add(costColumns.Row(rep.costs, "one gateway with Redis")...)
	return []*bench.Table{t}
}

// configuration returns what was compared.
func (rep *report) configuration() (lines []string) {
	s := rep.settings
	if rep.contenders != nil {
		for _, m := range fleet() {
			headers := "OpenAI's"
			if m.Anthropic {
				headers = "Anthropic's"
			}
			lines = append(lines, fmt.Sprintf("model %s: weight %v, %d calls at once, %.0f tokens and %.0f requests a "+
				"minute, %v times the time of a task; %s headers", m.Name, weightOf(&m), m.Slots, m.TokensPerMinute,
				m.RequestsPerMinute, m.Speed, headers))
		}
		lines = append(lines, fmt.Sprintf("tasks: log-normal, at most %d tokens at the median (σ %v, %d to %d), of "+
			"which 20 to 70 %% are for the answer, which has 35 to 100 %% of that; %d ms at the median (σ %v, %d to "+
			"%d) times the model's, which stands for %d times as long; all are there at the beginning", medianTokens,
			sigmaTokens, leastTokens, mostTokens, medianTime, sigmaTime, leastTime, mostTime, scale))
	}
	for _, c := range rep.contenders {
		lines = append(lines, c.name+": "+c.about)
	}
	if rep.contenders != nil {
		lines = append(lines, "plugin of api: "+apiConfig(fleet(), s.ttl, false),
			"plugin of proxy: "+proxyConfig(fleet()))
	}
	if rep.costs != nil {
		lines = append(lines, fmt.Sprintf("cost: %d callers on a connection each, for %v after %v; 10 models with "+
			"room for everything, one gateway with 2 workers, one Redis", callers, costSpan, costWarm))
	}
	return lines
}
