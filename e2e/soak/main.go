// Command soak loads a gateway for a long time with all that changes it: clients that leave, clusters and endpoints
// that come and go, tenants and models, endpoints that fail, new configurations. Envoy's memory must not grow, no count
// may drift, and no request may fail that its endpoint does not fail.
//
// It prints a line per period, ends with one line of JSON and exits with 1 if anything was violated.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
)

type settings struct {
	lab.Settings
	length, period, turn time.Duration
}

func main() {
	var s settings
	flag.DurationVar(&s.length, "for", 10*time.Minute, "length of the run, without its warm-up of one period")
	flag.DurationVar(&s.period, "period", 30*time.Second, "time between two audits")
	flag.DurationVar(&s.turn, "turn", 8*time.Second, "time between two changes of the clusters: one comes, one goes")
	s.Flags(310)
	flag.Parse()
	lab.Main("soak", s.Seed, func(ctx context.Context) (figures, error) { return run(ctx, &s) })
}
