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
	"time"

	"github.com/warmgate/warmgate/e2e/lab"
)

type settings struct {
	lab.Settings
	pushes, modules, perRound int
	burst                     int // requests that arrive at once before a push that finds a queue
	pause                     time.Duration
}

func main() {
	var s settings
	flag.IntVar(&s.pushes, "pushes", 100, "configuration pushes")
	flag.IntVar(&s.modules, "modules", 2, "how many of them replace the plugin's code")
	flag.IntVar(&s.perRound, "per-round", 10, "pushes while the same streams are open")
	flag.DurationVar(&s.pause, "pause", 800*time.Millisecond, "time between a push and the next")
	flag.IntVar(&s.burst, "burst", 600, "requests that arrive at once before a push that finds a queue in force")
	s.StreamsFlag(40)
	s.Flags(230)
	flag.Parse()
	lab.Main("reload", s.Seed, func(ctx context.Context) (figures, error) { return run(ctx, &s) })
}
