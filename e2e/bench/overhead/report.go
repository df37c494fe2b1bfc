package main

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
	s := rep.settings
	lines := []string{
		"machine: " + bench.Machine() + "; client, upstream and Envoy share it",
		"gateway: the shipped plain layout without access log and active health checks, 2 workers, one " +
			"process per variant",
		fmt.Sprintf("load: closed loop, %d connections, %d paired rounds in rotating order", s.connections, s.rounds),
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
	return bench.Publish(w, rep.settings.markdown, rep.configuration(), tables[0], rep.line(), tables[1:]...)
}

// result is the last line of the output. CPU ratios are medians over the rounds of Warmgate's CPU per request over
// another variant's in the same round.
type result struct {
	Bench   string       `json:"bench"`
	Ratio   float64      `json:"cpu_ratio_16k_64"` // Warmgate as shipped (requests) over readbody at 16 KiB and 64 endpoints; 0 = not measured
	Spread  bench.Spread `json:"cpu_ratio_16k_64_spread"`
	Tokens  float64      `json:"cpu_ratio_16k_64_tokens"` // unit: tokens over readbody
	Prefix  float64      `json:"cpu_ratio_16k_64_prefix"` // prefix_cache over readbody
	Floor   float64      `json:"cpu_ratio_16k_64_none"`   // requests over none
	Cells   []cellLine   `json:"cells"`
	Wasm    int64        `json:"wasm_bytes"`
	Memory  *memory      `json:"memory,omitempty"`
	Prompts []split      `json:"prompts,omitempty"`
	Hostile []hostile    `json:"hostile,omitempty"`
	Worst   float64      `json:"hostile_worst_us"` // CPU time of the hostile body that costs most, over readbody
	// CPU time per chunk of a streaming answer, and what of it is looking for the usage.
	ChunkNone  float64       `json:"chunk_us_none"`
	ChunkRead  float64       `json:"chunk_us_readbody"`
	ChunkOther float64       `json:"chunk_us_tokens"`
	Chunk      float64       `json:"chunk_us_prefix"`
	ChunkUsage float64       `json:"chunk_us_usage"`
	Rounds     int           `json:"rounds"`
	Targets    targetResults `json:"targets_met"`
}

type cellLine struct {
	KiB       int                `json:"kib"`
	Endpoints int                `json:"endpoints"`
	CPU       map[string]float64 `json:"cpu_us"` // median by variant
	Ratio     float64            `json:"requests_over_readbody"`
	Tokens    float64            `json:"tokens_over_readbody"`
	Prefix    float64            `json:"prefix_over_readbody"`
}

func (c *cell) line() cellLine {
	line := cellLine{
		KiB: c.kib, Endpoints: c.endpoints, CPU: map[string]float64{},
		Ratio: c.ratio(requests, readbody).Median, Tokens: c.ratio(tokens, readbody).Median,
		Prefix: c.ratio(prefix, readbody).Median,
	}
	for _, name := range names {
		line.CPU[name] = bench.SpreadBy(c.runs[name], cpuOf).Median
	}
	return line
}

// targetResults is which of the project's budgets were kept.
type targetResults struct {
	CPU     bool `json:"cpu"`     // cpu_ratio_16k_64 ≤ 1.25
	Tokens  bool `json:"tokens"`  // cpu_ratio_16k_64_tokens ≤ 1.45
	Prefix  bool `json:"prefix"`  // cpu_ratio_16k_64_prefix ≤ 2.1
	Wasm    bool `json:"wasm"`    // ≤ 6 MiB
	Hostile bool `json:"hostile"` // hostile_worst_us ≤ 2000
	Memory  bool `json:"memory"`  // a VM ≤ 64 MiB, and not more at the end than 10 % above the first tenth
}

func (rep *report) line() result {
	out := result{Bench: "overhead", Wasm: rep.wasm["warmgate"], Memory: rep.memory, Rounds: rep.settings.rounds}
	for _, c := range rep.cells {
		line := c.line()
		out.Cells = append(out.Cells, line)
		if c.kib == 16 && c.endpoints == 64 {
			out.Spread = c.ratio(requests, readbody)
			out.Ratio = out.Spread.Median
			out.Tokens, out.Prefix, out.Floor = line.Tokens, line.Prefix, c.ratio(requests, none).Median
			out.Targets.CPU, out.Targets.Tokens = out.Ratio <= 1.25, out.Tokens <= 1.45
			out.Targets.Prefix = out.Prefix > 0 && out.Prefix <= 2.1
		}
	}
	out.Prompts, out.Hostile, out.Worst = rep.prompts, rep.hostile, worst(rep.hostile).CPU.Median
	out.ChunkNone, out.ChunkRead = rep.chunks[none].Median, rep.chunks[readbody].Median
	out.ChunkOther, out.Chunk, out.ChunkUsage = rep.chunks[tokens].Median, rep.chunks[prefix].Median,
		rep.chunks[usage].Median
	out.Targets.Hostile = rep.hostile != nil && out.Worst <= hostileLimit
	out.Targets.Wasm = out.Wasm <= 6<<20
	if m := rep.memory; m != nil {
		out.Targets.Memory = m.Late <= 64<<20 && float64(m.Late) <= 1.1*float64(m.Early)
	}
	return out
}
