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
	"fmt"
	"strings"
	"time"

	"github.com/warmgate/warmgate/e2e/chaos/clusters"
	"github.com/warmgate/warmgate/e2e/chaos/gateway"
	"github.com/warmgate/warmgate/e2e/chaos/redis"
	"github.com/warmgate/warmgate/e2e/chaos/regions"
	"github.com/warmgate/warmgate/e2e/lab"
)

func main() {
	s := lab.Settings{}
	var only string
	inRedis := flag.Bool("in-redis", false, "two gateways that count in Redis, and the scenes in which that fails")
	flag.StringVar(&only, "only", "", "scenes to play by their names, or a part of them, comma separated; all if empty")
	flag.DurationVar(&s.Span, "span", 0, "length of a scene's longest part, or of a fault; 0: 10s, with Redis 3s")
	flag.StringVar(&s.Redis, "redis", "",
		"version of Redis, as in e2e/redisserver; empty: the default, or the binary that REDIS names")
	flag.IntVar(&s.Herd, "herd", 1000, "clients that arrive at the same moment, over all gateways")
	flag.IntVar(&s.Leavers, "leavers", 3000, "requests among clients that leave")
	flag.IntVar(&s.Crowd, "crowd", 500, "requests in flight at a gateway that is killed, or that wait in a queue")
	flag.IntVar(&s.QueueLeavers, "queue-leavers", 10000, "clients that leave while their requests wait in a queue")
	flag.IntVar(&s.Waiting, "waiting", 2000, "requests in the queue in the scene in which many wait")
	flag.IntVar(&s.Forged, "forged", 10000, "requests with forged headers, in the scenes that have them")
	s.StreamsFlag(16)
	s.Flags(200)
	flag.Parse()
	if only != "" {
		s.Only = strings.Split(only, ",")
	}
	name := "chaos"
	if *inRedis {
		name = "chaos-redis"
	}
	lab.Main(name, s.Seed, func(ctx context.Context) (figures, error) { return run(ctx, name, &s, false) })
}

// figures are what a run ends with.
type figures struct {
	lab.Figures
	*redis.Judgement // nil if there was no outage of Redis
}

// run plays the scenes of one of the two runs. Together, those at a single gateway are played with the module that can
// be crashed, which saves the start of a gateway.
func run(ctx context.Context, name string, s *lab.Settings, together bool) (f figures, err error) {
	stages, span := append(gateway.Stages(together), clusters.Stage(), regions.Stage()), 10*time.Second
	if name == "chaos-redis" {
		stages, span = redis.Stages(), 3*time.Second
	}
	if s.Span == 0 {
		s.Span = span
	}
	f.Figures, err = lab.Run(ctx, name, s, stages)
	if f.Judgement = redis.Judge(f.Scenes); f.Judgement != nil {
		fmt.Fprintln(s.Progress, f.Judgement)
	}
	return f, err
}
