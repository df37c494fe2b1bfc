// Command cmd plays one of the benchmarks:
//
//	go run ./e2e/bench/cmd NAME flags
//
// The last line of its output is one JSON object. docs/benchmarks has a page for each.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/agents"
	"github.com/warmgate/warmgate/e2e/bench/attacks"
	"github.com/warmgate/warmgate/e2e/bench/budget"
	"github.com/warmgate/warmgate/e2e/bench/clusters"
	"github.com/warmgate/warmgate/e2e/bench/gpu"
	"github.com/warmgate/warmgate/e2e/bench/leastrequest"
	"github.com/warmgate/warmgate/e2e/bench/metrics"
	"github.com/warmgate/warmgate/e2e/bench/overhead"
	"github.com/warmgate/warmgate/e2e/bench/overload"
	"github.com/warmgate/warmgate/e2e/bench/placement"
	"github.com/warmgate/warmgate/e2e/bench/prefix"
	"github.com/warmgate/warmgate/e2e/bench/push"
	"github.com/warmgate/warmgate/e2e/bench/ranks"
	"github.com/warmgate/warmgate/e2e/bench/redis"
	"github.com/warmgate/warmgate/e2e/bench/regions"
	"github.com/warmgate/warmgate/e2e/bench/scraper"
	"github.com/warmgate/warmgate/e2e/bench/simulate"
	"github.com/warmgate/warmgate/e2e/bench/sizing"
	"github.com/warmgate/warmgate/e2e/bench/truth"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // by nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	err := bench.Run(ctx, []bench.Benchmark{
		agents.Benchmark,
		attacks.Benchmark,
		budget.Benchmark,
		clusters.Benchmark,
		gpu.Benchmark,
		leastrequest.Benchmark,
		metrics.Benchmark,
		overhead.Benchmark,
		overload.Benchmark,
		placement.Benchmark,
		prefix.Benchmark,
		push.Benchmark,
		ranks.Benchmark,
		redis.Benchmark,
		regions.Benchmark,
		scraper.Benchmark,
		simulate.Benchmark,
		sizing.Benchmark,
		truth.Benchmark,
	}, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
