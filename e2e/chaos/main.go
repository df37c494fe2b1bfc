// Command chaos breaks clients, endpoints and VMs around a running gateway, one scene after the other, and audits all
// counts after each: the plugin's totals, the model servers' own counts, Envoy's active requests and the clients' open
// streams must be equal, and 0 in the end. A request may only fail if the endpoint that it was given failed it.
//
// It prints what it does, ends with one line of JSON and exits with 1 if anything was violated. The same seed gives the
// same requests, leaves and faults; how they interleave is up to the machine.
package main

import (
	"context"
	"flag"
	"os"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

func main() {
	s := settings{progress: os.Stdout}
	var only string
	flag.StringVar(&only, "only", "", "scenes to play, comma separated; all if empty")
	flag.DurationVar(&s.span, "span", 10*time.Second, "length of a scene's longest part")
	flag.StringVar(&s.version, "version", "", "Envoy's version, as in build/envoy; empty: the default, or the binary that ENVOY names")
	flag.IntVar(&s.servers, "servers", 8, "model servers")
	flag.IntVar(&s.workers, "workers", 2, "Envoy's worker threads")
	flag.IntVar(&s.herd, "herd", 1000, "clients that arrive at the same moment")
	flag.IntVar(&s.leavers, "leavers", 3000, "requests among clients that leave")
	flag.IntVar(&s.streams, "streams", 16, "streams open during each scene")
	flag.Float64Var(&s.rate, "rate", 200, "requests a second")
	flag.Uint64Var(&s.seed, "seed", audit.Seed(), "seed of everything random; the environment's SEED, or a new one")
	flag.Parse()
	if only != "" {
		s.only = strings.Split(only, ",")
	}
	audit.Main("chaos", s.seed, func(ctx context.Context) (figures, error) { return run(ctx, s) })
}
