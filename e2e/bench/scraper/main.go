// Package scraper measures what scraping engines costs a gateway: Envoy's CPU time and memory with endpoint_metrics
// less those with a policy without scrapes, in two processes before the same engines over the same time; how many
// requests the engines get for it, and how old the metrics of them are. And how long reading a page takes inside Envoy
// alone.
package scraper

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
)

type settings struct {
	bench.Settings
	span  time.Duration   // of one round
	sizes bench.List[int] // numbers of endpoints
	page  string          // name of the page among the samples
}

func parse() (settings, error) {
	s := defaults()
	s.RoundsFlags(3)
	flag.DurationVar(&s.span, "span", s.span, "length of a round")
	flag.Var(&s.sizes, "endpoints", "numbers of endpoints")
	flag.StringVar(&s.page, "page", "vllm-0.32.0.prom", "page of the engines, a file of metrics/testdata")
	flag.Parse()
	if s.Rounds < 1 || s.span < time.Second {
		return s, errors.New("at least one round of at least a second")
	}
	return s, nil
}

// Benchmark is to be played.
var Benchmark = bench.New("scraper", parse, measure)

func measure(ctx context.Context, s settings) (err error) {
	root, err := harness.Root()
	if err != nil {
		return err
	}
	page, err := loadPage(filepath.Join(root, "metrics", "testdata", s.page))
	if err != nil {
		return err
	}
	rep := &report{settings: s, page: len(page)}
	if rep.parser, err = measureParser(ctx, page); err != nil {
		return fmt.Errorf("parser: %w", err)
	}
	fmt.Printf("parser inside Envoy: %s ms per MB\n", rep.parser.Format("%.2f"))
	st := &stage{settings: s, fleet: startFleet(slices.Max(s.sizes), page)}
	defer st.fleet.close()
	defer st.end()
	if err := st.begin(ctx); err != nil {
		return err
	}
	for _, n := range s.sizes {
		runs, err := st.measure(ctx, n)
		if err != nil {
			return fmt.Errorf("%d endpoints: %w", n, err)
		}
		rep.Add("", strconv.Itoa(n), runs...)
		fmt.Println(rep.table().Last(1))
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}

// report is the output of the benchmark.
type report struct {
	bench.Runs[run] // by number of endpoints
	settings        settings
	page            int          // bytes
	parser          bench.Spread // ms per MB
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

func (rep *report) table() *bench.Table { return rep.Tabulate(columns, "endpoints: median (min..max)") }

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
	for _, n := range rep.settings.sizes {
		runs := rep.Of("", strconv.Itoa(n))
		c, cpu := bench.Line{"endpoints": n}, bench.SpreadBy(runs, columns[0].Of)
		c.Figure("cpu_ms_per_s_added", &cpu)
		bench.Medians(c, runs, map[string]func(*run) float64{
			"cpu_ms_per_s_without": columns[1].Of, "requests_per_s": columns[2].Of, "age_ms": columns[3].Of,
			"fresh_endpoints": columns[5].Of, "rss_mib_added": columns[6].Of, "rss_mib_without": columns[7].Of,
		})
		c["age_ms_max"] = bench.SpreadBy(runs, columns[4].Of).Max
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
func defaults() settings { return settings{span: 5 * time.Second, sizes: []int{8, 100, 1000}} }
