package overhead

import (
	"fmt"
	"io"

	"github.com/warmgate/warmgate/e2e/bench"
)

// cell is one place of the matrix.
type cell struct {
	kib, endpoints int
	runs           map[string][]measurement // by variant, then by round
}

var names = []string{none, readbody, tokens, requests, prefix}

func cpuOf(m *measurement) float64 { return m.cpu }

// ratio returns the CPU per request of one variant over another's, round by round.
func (c *cell) ratio(variant, over string) bench.Spread {
	return bench.RatioBy(c.runs[variant], c.runs[over], cpuOf)
}

// difference returns the CPU per request of the first variant, less that of the second, plus that of the third, and so
// on, round by round.
func difference(runs map[string][]measurement, terms ...string) bench.Spread {
	var out []float64
	for round := range runs[terms[0]] {
		sum, sign := 0.0, 1.0
		for _, name := range terms {
			sum += sign * runs[name][round].cpu
			sign = -sign
		}
		out = append(out, sum)
	}
	return bench.SpreadOf(out)
}

func (c *cell) progress() string {
	text := fmt.Sprintf("%3d KiB, %3d endpoints: CPU µs per request", c.kib, c.endpoints)
	for _, name := range names {
		text += fmt.Sprintf("  %s %.0f", name, bench.SpreadBy(c.runs[name], cpuOf).Median)
	}
	return text + fmt.Sprintf("  tokens/readbody %s", c.ratio(tokens, readbody).Format("%.2f"))
}

// report is the output of the benchmark.
type report struct {
	settings settings
	wasm     map[string]int64 // sizes, bytes
	cells    []*cell
	prompts  []split
	hostile  []hostile
	memory   *memory
	chunks   map[string]bench.Spread // µs per chunk, by variant
}

var columns = bench.Columns[measurement]{
	bench.Col("requests/s", "%.0f", func(m *measurement) float64 { return m.rate }),
	bench.Col("p50 µs", "%.0f", func(m *measurement) float64 { return m.p50 }),
	bench.Col("p99 µs", "%.0f", func(m *measurement) float64 { return m.p99 }),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("body, endpoints, plugin: median (min..max)", "CPU µs/request", "CPU over readbody")
	for _, c := range rep.cells {
		for _, name := range names {
			t.Add(columns.Row(c.runs[name], fmt.Sprintf("%d KiB, %d, %s", c.kib, c.endpoints, name),
				bench.SpreadBy(c.runs[name], cpuOf).Format("%.0f"), c.ratio(name, readbody).Format("%.2f"))...)
		}
	}
	return t
}

func (rep *report) configuration() []string {
	lines := []string{
		"gateway: the shipped plain layout without access log and active health checks, one process per variant",
		"CPU: Envoy's own user and kernel time, from /proc",
		fmt.Sprintf("none, readbody: cluster balanced by Envoy's least_request; readbody.wasm is %d bytes",
			rep.wasm[readbody]),
		fmt.Sprintf("tokens, requests: Warmgate (%d bytes), configuration %s and %s", rep.wasm["warmgate"],
			config("tokens"), config("requests")),
		"prefix: Warmgate, configuration " + cacheConfig + "; each body is the same prompt",
		"scan, chain, hash: readbody that also does a part of what prefix does with a body: differences of paired " +
			"runs are its cost",
	}
	if rep.memory != nil {
		lines = append(lines, rep.memory.describe())
	}
	return lines
}

// tables returns those of the parts that were measured.
func (rep *report) tables() []*bench.Table {
	var out []*bench.Table
	if rep.cells != nil {
		out = append(out, rep.table())
	}
	if rep.prompts != nil {
		out = append(out, promptsTable(rep.prompts))
	}
	if rep.hostile != nil {
		out = append(out, hostileTable(rep.hostile))
	}
	if rep.chunks != nil {
		out = append(out, chunksTable(rep.chunks))
	}
	return out
}

// publish prints the report, and saves it in the file of the settings, if any.
func (rep *report) publish(w io.Writer) error {
	tables := rep.tables()
	if len(tables) == 0 { // only the memory was watched
		tables = []*bench.Table{{}}
	}
	return bench.Publish(w, rep.settings.Markdown, rep.configuration(), tables[0], rep.line(), tables[1:]...)
}

// line returns what a cell has shown, medians over the rounds.
func (c *cell) line() bench.Line {
	cpu := map[string]float64{} // by variant
	for _, name := range names {
		cpu[name] = bench.SpreadBy(c.runs[name], cpuOf).Median
	}
	return bench.Line{
		"kib": c.kib, "endpoints": c.endpoints, "cpu_us": cpu,
		"requests_over_readbody": c.ratio(requests, readbody).Median,
		"tokens_over_readbody":   c.ratio(tokens, readbody).Median,
		"prefix_over_readbody":   c.ratio(prefix, readbody).Median,
	}
}

// targets are those of a name in targets_met, but for that of the memory.
var targets = map[string]bench.Target{
	"cpu":     {Name: "cpu_ratio_16k_64", Limit: 1.25},
	"tokens":  {Name: "cpu_ratio_16k_64_tokens", Limit: 1.45},
	"prefix":  {Name: "cpu_ratio_16k_64_prefix", Limit: 2.1},
	"wasm":    {Name: "wasm_bytes", Limit: 6 << 20},
	"hostile": {Name: "hostile_worst_us", Limit: hostileLimit},
}

// line returns the last line of the output. CPU ratios are medians over the rounds of Warmgate's CPU per request over
// another variant's in the same round. What was not measured is absent. docs/benchmarks/overhead.md describes the
// figures.
func (rep *report) line() bench.Line {
	l := bench.Line{
		"bench": "overhead", "wasm_bytes": float64(rep.wasm["warmgate"]), "rounds": rep.settings.Rounds,
	}
	var cells []bench.Line
	for _, c := range rep.cells {
		cells = append(cells, c.line())
		if c.kib == 16 && c.endpoints == 64 {
			shipped := c.ratio(requests, readbody)
			l.Figure("cpu_ratio_16k_64", &shipped)
			l["cpu_ratio_16k_64_tokens"] = c.ratio(tokens, readbody).Median
			l["cpu_ratio_16k_64_prefix"] = c.ratio(prefix, readbody).Median
			l["cpu_ratio_16k_64_none"] = c.ratio(requests, none).Median
		}
	}
	l["cells"] = cells
	if rep.prompts != nil {
		l["prompts"] = rep.prompts
	}
	if rep.hostile != nil {
		l["hostile"], l["hostile_worst_us"] = rep.hostile, worst(rep.hostile).CPU.Median
	}
	for name, chunk := range map[string]string{
		"chunk_us_none": none, "chunk_us_readbody": readbody, "chunk_us_tokens": tokens, "chunk_us_prefix": prefix,
		"chunk_us_usage": usage, // what of it is looking for the usage
	} {
		if took, ok := rep.chunks[chunk]; ok {
			l[name] = took.Median
		}
	}
	met := map[string]bool{"memory": false}
	for name, target := range targets {
		met[name] = l.Meets([]bench.Target{target})
	}
	if m := rep.memory; m != nil { // at the end not more than 10 % above the first tenth
		l["memory"], met["memory"] = m, m.Late <= 64<<20 && float64(m.Late) <= 1.1*float64(m.Early)
	}
	l["targets_met"] = met
	return l
}
