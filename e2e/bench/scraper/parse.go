package scraper

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/harness"
)

// measureParser has the page read inside Envoy, without a scrape, and returns how long that takes in ms per MB (10⁶
// bytes).
func measureParser(ctx context.Context, page []byte) (bench.Spread, error) {
	module, err := bench.Probe(ctx)
	if err != nil {
		return bench.Spread{}, err
	}
	g, err := harness.Start(ctx, harness.Options{
		Workers: 1, Module: module, Config: "parse\n" + string(page), Policy: harness.LeastRequest, Edit: bench.Quiet,
	})
	if err != nil {
		return bench.Spread{}, err
	}
	defer func() { _ = g.Stop() }() // the process ends with this one in any case
	return parserTimes(g.Logs())
}

var batch = regexp.MustCompile(`probe: (\d+) bytes in (\d+) ns`)

// parserTimes reads what the plugin has logged, in ms per MB. The first half of the batches warms up.
func parserTimes(log string) (bench.Spread, error) {
	var ms []float64
	for _, m := range batch.FindAllStringSubmatch(log, -1) {
		size, err := strconv.ParseFloat(m[1], 64)
		took, err2 := strconv.ParseFloat(m[2], 64)
		if err := errors.Join(err, err2); err != nil {
			return bench.Spread{}, err
		}
		ms = append(ms, took/size) // ns per byte are ms per MB
	}
	if len(ms) < 2 {
		return bench.Spread{},
			fmt.Errorf("the plugin has measured nothing; its log ends %.2000s", log[max(0, len(log)-2000):])
	}
	return bench.SpreadOf(ms[len(ms)/2:]), nil
}
