// Command chaos breaks clients, endpoints and VMs around a running gateway, one scene after the other, and audits all
// counts after each: the plugin's totals, the model servers' own counts, Envoy's active requests and the clients' open
// streams must be equal, and 0 in the end. A request may only fail if the endpoint that it was given failed it. In some
// scenes requests wait in a queue: none of these may fail. It also breaks whole clusters behind a gateway that chooses
// among them, and regions and the ways between them while they forward to each other: what a region alone would have
// served must be served.
//
// With -in-redis it breaks Redis, and the way to it, under two gateways that count there. No request may fail then, and
// the store's totals and the sum of its leases must be equal to the other counts too. For the faults that are outages
// it also reports what they added to the 99th percentile of the time to answer, against the targets: 25 ms in the first
// second, 1 ms later. A time that misses them is no violation.
//
// It prints what it does, ends with one line of JSON and exits with 1 if anything was violated. The same seed gives the
// same requests, leaves and faults; how they interleave depends on the machine.
package main

import (
	"context"
	"flag"
	"os"
	"strings"

	"github.com/warmgate/warmgate/e2e/audit"
)

func main() {
	s := settings{progress: os.Stdout}
	var only string
	flag.BoolVar(&s.inRedis, "in-redis", false, "two gateways that count in Redis, and the scenes in which that fails")
	flag.StringVar(&only, "only", "", "scenes to play by their names, or a part of them, comma separated; all if empty")
	flag.DurationVar(&s.span, "span", 0, "length of a scene's longest part, or of a fault; 0: 10s, with Redis 3s")
	flag.StringVar(&s.version, "version", "",
		"Envoy's version, as in build/envoy; empty: the default, or the binary that ENVOY names")
	flag.StringVar(&s.redis, "redis", "",
		"version of Redis, as in e2e/redisserver; empty: the default, or the binary that REDIS names")
	flag.IntVar(&s.servers, "servers", 8, "model servers")
	flag.IntVar(&s.workers, "workers", 2, "worker threads of each gateway")
	flag.IntVar(&s.herd, "herd", 1000, "clients that arrive at the same moment, over all gateways")
	flag.IntVar(&s.leavers, "leavers", 3000, "requests among clients that leave")
	flag.IntVar(&s.crowd, "crowd", 500, "requests in flight at a gateway that is killed, or that wait in a queue")
	flag.IntVar(&s.queueLeavers, "queue-leavers", 10000, "clients that leave while their requests wait in a queue")
	flag.IntVar(&s.waiting, "waiting", 2000, "requests in the queue in the scene in which many wait")
	flag.IntVar(&s.forged, "forged", 10000, "requests with forged headers, in the scenes that have them")
	flag.IntVar(&s.streams, "streams", 16, "streams open during each scene")
	flag.Float64Var(&s.rate, "rate", 200, "requests a second, over all gateways")
	flag.Uint64Var(&s.seed, "seed", audit.Seed(), "seed of everything random; the environment's SEED, or a new one")
	flag.Parse()
	if only != "" {
		s.only = strings.Split(only, ",")
	}
	audit.Main(s.bench(), s.seed, func(ctx context.Context) (figures, error) { return run(ctx, s) })
}
