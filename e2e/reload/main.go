// Command reload changes the configuration of a running gateway a hundred times under traffic, in all ways open to an
// operator: policy, units, weights, off and on, configurations that must be refused, endpoints, the native policy, the
// plugin's code. No request may fail, no stream may be cut, and every stream must stay counted throughout.
//
// It prints what it does, ends with one line of JSON and exits with 1 if anything was violated. The same seed gives the
// same pushes in the same order.
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
	flag.IntVar(&s.pushes, "pushes", 100, "configuration pushes")
	flag.IntVar(&s.modules, "modules", 2, "how many of them replace the plugin's code")
	flag.IntVar(&s.perRound, "per-round", 10, "pushes while the same streams are open")
	flag.DurationVar(&s.pause, "pause", 800*time.Millisecond, "time between a push and the next")
	flag.Float64Var(&s.rate, "rate", 230, "requests a second beside the streams")
	flag.IntVar(&s.burst, "burst", 600, "requests that arrive at once before a push that finds a queue in force")
	flag.IntVar(&s.streams, "streams", 40, "streams open during each round")
	flag.StringVar(&s.version, "version", "", "Envoy's version, as in build/envoy; empty: the default, or the binary "+
		"that ENVOY names")
	flag.IntVar(&s.servers, "servers", 8, "model servers")
	flag.IntVar(&s.workers, "workers", 2, "Envoy's worker threads")
	flag.Uint64Var(&s.seed, "seed", audit.Seed(), "seed of everything random; the environment's SEED, or a new one")
	flag.Parse()
	audit.Main("reload", s.seed, func(ctx context.Context) (figures, error) { return run(ctx, s) })
}
