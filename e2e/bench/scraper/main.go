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
	"time"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
)

type settings struct {
	bench.Settings
	span  time.Duration // of one round
	sizes []int         // numbers of endpoints
	page  string        // name of the page among the samples
}

func parse() (settings, error) {
	s := defaults()
	var sizes string
	s.RoundsFlags(3)
	flag.DurationVar(&s.span, "span", s.span, "length of a round")
	flag.StringVar(&sizes, "endpoints", "8,100,1000", "numbers of endpoints")
	flag.StringVar(&s.page, "page", "vllm-0.32.0.prom", "page of the engines, a file of metrics/testdata")
	flag.Parse()
	var err error
	if s.sizes, err = bench.Numbers(sizes); err == nil && (s.Rounds < 1 || s.span < time.Second) {
		err = errors.New("at least one round of at least a second")
	}
	return s, err
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
	rep := &report{settings: s, page: len(page), sizes: s.sizes, runs: map[int][]run{}}
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
		if rep.runs[n], err = st.measure(ctx, n); err != nil {
			return fmt.Errorf("%d endpoints: %w", n, err)
		}
		fmt.Printf("%d endpoints: %s ms of CPU a second, %s requests a second\n",
			n, bench.SpreadBy(rep.runs[n], columns[0].Of).Format("%.1f"),
			bench.SpreadBy(rep.runs[n], columns[2].Of).Format("%.1f"))
	}
	return bench.Publish(os.Stdout, s.Markdown, rep.configuration(), rep.table(), rep.line())
}
