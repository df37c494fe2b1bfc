package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
)

// report is the output of the benchmark.
type report struct {
	settings settings
	page     int // bytes
	sizes    []int
	runs     map[int][]run // by number of endpoints
	parser   bench.Spread  // ms per MB
}

var columns = bench.Columns[run]{
	bench.Col("CPU ms/s for it", "%.1f", func(r *run) float64 { return r.cpu - r.cpuPlain }),
	bench.Col("CPU ms/s without", "%.1f", func(r *run) float64 { return r.cpuPlain }),
	bench.Col("requests/s to engines", "%.1f", func(r *run) float64 { return r.rate }),
	bench.Col("age ms, median", "%.0f", func(r *run) float64 { return r.age }),
	bench.Col("age ms, oldest", "%.0f", func(r *run) float64 { return r.oldest }),
	bench.Col("fresh", "%.0f", func(r *run) float64 { return r.fresh }),
	bench.Col("memory MiB for it", "%.1f", func(r *run) float64 { return r.rss - r.rssPlain }),
	bench.Col("memory MiB without", "%.1f", func(r *run) float64 { return r.rssPlain }),
}

func (rep *report) table() *bench.Table {
	t := columns.Table("endpoints: median (min..max)")
	for _, n := range rep.sizes {
		t.Add(columns.Row(rep.runs[n], strconv.Itoa(n))...)
	}
	return t
}

func (rep *report) configuration() []string {
	s := rep.settings
	return []string{
		"machine: " + bench.Machine() + "; engines and gateways share it",
		"gateway: the shipped plain layout without access log and active health checks, 2 workers, a process with " +
			"scraping and one without, measured at the same time",
		fmt.Sprintf("engines: in one process, each at its own port; all show the same page of %d bytes (%s)",
			rep.page, s.page),
		fmt.Sprintf("%d rounds of %v for each number of endpoints; scraped once a second, the default",
			s.rounds, s.span),
		"with scraping: " + scrapeConfig,
		"without: " + plainConfig,
		"CPU: Envoy's own user and kernel time, from /proc, in steps of 10 ms; age: since an engine showed its page; " +
			"workers know it up to 100 ms later",
		"parser inside Envoy: " + rep.parser.Format("%.2f") + " ms per MB of the page",
	}
}

// result is the last line of the output. Figures are medians over the rounds.
type result struct {
	Bench    string       `json:"bench"`
	Page     int          `json:"page_bytes"`
	Span     float64      `json:"span_s"`
	Rounds   int          `json:"rounds"`
	Cells    []cell       `json:"cells"`
	Parse    float64      `json:"parse_ms_per_mb"`
	Spread   bench.Spread `json:"parse_ms_per_mb_spread"`
	ParseMet bool         `json:"parse_target_met"` // ≤ 5 ms per MB
}

// cell is one number of endpoints. What is "added" is the difference between the gateway that scrapes and the other,
// over the same span.
type cell struct {
	Endpoints int          `json:"endpoints"`
	CPU       float64      `json:"cpu_ms_per_s_added"`
	Spread    bench.Spread `json:"cpu_ms_per_s_added_spread"`
	Plain     float64      `json:"cpu_ms_per_s_without"`
	PerMB     float64      `json:"cpu_ms_per_mb"` // of pages: all that Envoy does with them
	Rate      float64      `json:"requests_per_s"`
	Age       float64      `json:"age_ms"`
	Oldest    float64      `json:"age_ms_max"`
	Fresh     float64      `json:"fresh_endpoints"`
	Memory    float64      `json:"rss_mib_added"`
	Without   float64      `json:"rss_mib_without"`
}

// parseLimit is what reading a page may take inside Envoy, in ms per MB.
const parseLimit = 5

func (rep *report) line() result {
	out := result{
		Bench: "scraper", Page: rep.page, Span: rep.settings.span.Seconds(), Rounds: rep.settings.rounds,
		Parse: rep.parser.Median, Spread: rep.parser, ParseMet: rep.parser.Median > 0 &&
			rep.parser.Median <= parseLimit,
	}
	for _, n := range rep.sizes {
		cpu := bench.SpreadBy(rep.runs[n], columns[0].Of)
		median := func(of func(*run) float64) float64 { return bench.SpreadBy(rep.runs[n], of).Median }
		c := cell{
			Endpoints: n, CPU: cpu.Median, Spread: cpu, Plain: median(func(r *run) float64 { return r.cpuPlain }),
			Rate: median(func(r *run) float64 { return r.rate }), Age: median(func(r *run) float64 { return r.age }),
			Fresh: median(func(r *run) float64 { return r.fresh }),
			Memory: median(func(r *run) float64 {
				return r.rss - r.rssPlain
			}), Without: median(func(r *run) float64 { return r.rssPlain }),
		}
		c.Oldest = bench.SpreadBy(rep.runs[n], func(r *run) float64 { return r.oldest }).Max
		if mb := c.Rate * float64(rep.page) / 1e6; mb > 0 {
			c.PerMB = c.CPU / mb
		}
		out.Cells = append(out.Cells, c)
	}
	return out
}

// publish prints the report, and saves it in the file of the settings, if any.
func (rep *report) publish(w io.Writer) error {
	return bench.Publish(w, rep.settings.markdown, rep.configuration(), rep.table(), rep.line())
}

// defaults are short: the whole benchmark takes two minutes.
func defaults() settings { return settings{rounds: 3, span: 5 * time.Second} }
