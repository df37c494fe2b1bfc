package overhead

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

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

// memory is what the memory test saw. Sizes are in bytes.
type memory struct {
	Requests int     `json:"requests"`
	BodyKiB  int     `json:"body_kib"`
	VMs      int     `json:"vms"`
	Early    int64   `json:"vm_bytes_early"` // the largest VM after a tenth of the requests
	Late     int64   `json:"vm_bytes_late"`  // and after all of them
	Points   []int64 `json:"vm_bytes"`       // after each tenth
	RSSEarly int64   `json:"rss_early"`
	RSSLate  int64   `json:"rss_late"`
	RSSNone  int64   `json:"rss_no_plugin"` // the gateway without a plugin, for comparison
}

// watchMemory plays many requests at the gateway that scans bodies and measures its memory after every tenth.
func watchMemory(ctx context.Context, variants []*variant, s settings) (*memory, error) {
	out := &memory{Requests: s.memory, BodyKiB: s.memoryBody}
	request := chatRequest(s.memoryBody << 10)
	var err error
	for _, v := range variants {
		switch v.name {
		case none:
			if out.RSSNone, err = v.gateway.RSS(); err != nil {
				return nil, err
			}
		case tokens:
			if err := out.watch(ctx, v, request, s); err != nil {
				return nil, err
			}
		}
	}
	out.Early, out.Late = out.Points[0], out.Points[len(out.Points)-1]
	fmt.Println(out.describe())
	return out, nil
}

func (m *memory) watch(ctx context.Context, v *variant, request []byte, s settings) error {
	const steps = 10
	for step := range steps {
		if _, err := v.load(ctx, s.connections, s.memory/steps, request); err != nil {
			return err
		}
		vms, err := linearMemories(v.gateway.PID())
		if err != nil {
			return err
		}
		if len(vms) == 0 {
			return fmt.Errorf("memory test: no Wasm memory found in process %d", v.gateway.PID())
		}
		rss, err := v.gateway.RSS()
		if err != nil {
			return err
		}
		if step == 0 {
			m.RSSEarly = rss
		}
		m.RSSLate, m.VMs = rss, len(vms)
		m.Points = append(m.Points, slices.Max(vms))
	}
	return nil
}

func (m *memory) describe() string {
	const mib = 1 << 20
	return fmt.Sprintf("memory: %d requests of %d KiB; largest of %d VMs %.1f MiB after a tenth, %.1f MiB at the "+
		"end; Envoy's RSS %d, then %d MiB (%d without plugin)",
		m.Requests, m.BodyKiB, m.VMs, float64(m.Early)/mib, float64(m.Late)/mib, m.RSSEarly/mib, m.RSSLate/mib,
		m.RSSNone/mib)
}

// linearMemories returns the sizes of the Wasm memories in a process. V8 reserves gigabytes of address space for each,
// so that a wild access hits a guard page, and makes its beginning writable as the memory grows: a writable mapping
// that is followed by such a reservation is a memory, and its size is what the VM has taken so far. It never shrinks.
func linearMemories(pid int) ([]int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return parseMaps(f)
}

// guardSize is less than any reservation that V8 makes for a memory, and more than any other mapping of Envoy.
const guardSize = 3 << 30

type mapping struct {
	start, end uint64
	writable   bool
}

func parseMaps(r io.Reader) ([]int64, error) {
	var out []int64
	var last mapping
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		m, err := parseMapping(lines.Text())
		if err != nil {
			return nil, err
		}
		if !m.writable && m.end-m.start >= guardSize && last.writable && last.end == m.start {
			out = append(out, int64(last.end-last.start))
		}
		last = m
	}
	return out, lines.Err()
}

// parseMapping reads "7f00-7f10 rw-p 00000000 00:00 0 name".
func parseMapping(line string) (mapping, error) {
	var m mapping
	span, rest, _ := strings.Cut(line, " ")
	from, to, ok := strings.Cut(span, "-")
	if !ok || len(rest) < 4 {
		return m, fmt.Errorf("memory map line %q", line)
	}
	var err error
	if m.start, err = strconv.ParseUint(from, 16, 64); err != nil {
		return m, err
	}
	m.end, err = strconv.ParseUint(to, 16, 64)
	m.writable = rest[1] == 'w'
	return m, err
}
