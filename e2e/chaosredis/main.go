// Command chaosredis breaks Redis, and the way to it, under two gateways that count in it, one scene after the other. No request
// may fail, and after each scene the counts of all parties must be equal: the store's totals and the sum of its leases, both
// gateways' own counts, the model servers', Envoy's and the clients'; and 0 in the end.
//
// For the faults that are outages it also says what they added to the 99th percentile of the time to answer, and whether that
// keeps the targets: 25 ms in the first second, 1 ms later. A time that misses them is no violation.
//
// It prints what it does, ends with one line of JSON and exits with 1 if anything was violated. The same seed gives the
// same requests and faults; how they interleave is up to the machine.
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
	flag.DurationVar(&s.span, "span", 3*time.Second, "how long a fault lasts")
	flag.StringVar(&s.version, "redis", "", "version of Redis, as in e2e/redisserver; empty: the default, or the binary that REDIS names")
	flag.IntVar(&s.servers, "servers", 8, "model servers")
	flag.IntVar(&s.workers, "workers", 2, "worker threads of each gateway")
	flag.IntVar(&s.herd, "herd", 1000, "clients that arrive at the same moment, over all gateways")
	flag.IntVar(&s.crowd, "crowd", 500, "requests in flight at a gateway that is killed")
	flag.IntVar(&s.streams, "streams", 16, "streams open during each scene")
	flag.Float64Var(&s.rate, "rate", 200, "requests a second, over all gateways")
	flag.Uint64Var(&s.seed, "seed", audit.Seed(), "seed of everything random; the environment's SEED, or a new one")
	flag.Parse()
	if only != "" {
		s.only = strings.Split(only, ",")
	}
	audit.Main("chaosredis", s.seed, func(ctx context.Context) (figures, error) { return run(ctx, s) })
}
