package scraper

import (
	"fmt"
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
	return []string{
		fmt.Sprintf("engines: in one process, each at its own port; all show the same page of %d bytes", rep.page),
		"with scraping: " + scrapeConfig,
		"without: " + plainConfig,
		"CPU: Envoy's own user and kernel time, from /proc, in steps of 10 ms; age: since an engine showed its page; " +
			"workers know it up to 100 ms later",
		"parser inside Envoy: " + rep.parser.Format("%.2f") + " ms per MB of the page",
	}
}

// parseLimit is what reading a page may take inside Envoy, in ms per MB.
const parseLimit = 5

// line returns the last line of the output. Figures are medians over the rounds. What is "added" is the difference
// between the gateway that scrapes and the other, over the same span.
func (rep *report) line() bench.Line {
	l := bench.Line{
		"bench": "scraper", "page_bytes": rep.page, "span_s": rep.settings.span.Seconds(),
		"rounds": rep.settings.Rounds, "parse_target_met": rep.parser.Median > 0 && rep.parser.Median <= parseLimit,
	}
	l.Figure("parse_ms_per_mb", &rep.parser)
	var cells []bench.Line
	for _, n := range rep.sizes {
		c, cpu := bench.Line{"endpoints": n}, bench.SpreadBy(rep.runs[n], columns[0].Of)
		c.Figure("cpu_ms_per_s_added", &cpu)
		bench.Medians(c, rep.runs[n], map[string]func(*run) float64{
			"cpu_ms_per_s_without": columns[1].Of, "requests_per_s": columns[2].Of, "age_ms": columns[3].Of,
			"fresh_endpoints": columns[5].Of, "rss_mib_added": columns[6].Of, "rss_mib_without": columns[7].Of,
		})
		c["age_ms_max"] = bench.SpreadBy(rep.runs[n], columns[4].Of).Max
		c["cpu_ms_per_mb"] = 0.0 // of pages: all that Envoy does with them
		if mb := c.Value("requests_per_s") * float64(rep.page) / 1e6; mb > 0 {
			c["cpu_ms_per_mb"] = cpu.Median / mb
		}
		cells = append(cells, c)
	}
	l["cells"] = cells
	return l
}

// defaults are short: the whole benchmark takes two minutes.
func defaults() settings { return settings{span: 5 * time.Second} }
