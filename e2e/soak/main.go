// Command soak loads a gateway for a long time with all that changes it: clients that leave, clusters and endpoints
// that come and go, tenants and models, endpoints that fail, new configurations. Envoy's memory must not grow, no count
// may drift, and no request may fail that its endpoint does not fail.
//
// It prints a line per period, ends with one line of JSON and exits with 1 if anything was violated.
package main

import (
	"context"
	"flag"
	"os"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

func main() {
	s := settings{progress: os.Stdout}
	flag.DurationVar(&s.length, "for", 10*time.Minute, "length of the run, without its warm-up of one period")
	flag.DurationVar(&s.period, "period", 30*time.Second, "time between two audits")
	flag.DurationVar(&s.turn, "turn", 8*time.Second, "time between two changes of the clusters: one comes, one goes")
	flag.Float64Var(&s.rate, "rate", 310, "requests a second")
	flag.StringVar(&s.version, "version", "",
		"Envoy's version, as in build/envoy; empty: the default, or the binary that ENVOY names")
	flag.IntVar(&s.servers, "servers", 8, "model servers")
	flag.IntVar(&s.workers, "workers", 2, "Envoy's worker threads")
	flag.Uint64Var(&s.seed, "seed", audit.Seed(), "seed of everything random; the environment's SEED, or a new one")
	flag.Parse()
	audit.Main("soak", s.seed, func(ctx context.Context) (figures, error) { return run(ctx, s) })
}
