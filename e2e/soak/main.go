// Command soak loads a gateway for a long time with all that changes it: clients that leave, endpoints that come and go, new
// configurations. Envoy's memory must not grow, no count may drift, and no request may fail.
//
// It prints a line per period, ends with one line of JSON and exits with 1 if anything was violated.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := settings{progress: os.Stdout}
	flag.DurationVar(&s.length, "for", 10*time.Minute, "length of the run, without its warm-up of one period")
	flag.DurationVar(&s.period, "period", 20*time.Second, "time between two audits")
	flag.Float64Var(&s.rate, "rate", 300, "requests a second")
	flag.StringVar(&s.version, "version", "", "Envoy's version, as in build/envoy; empty: the default, or the binary that ENVOY names")
	flag.IntVar(&s.servers, "servers", 8, "model servers")
	flag.IntVar(&s.workers, "workers", 2, "Envoy's worker threads")
	flag.Uint64Var(&s.seed, "seed", audit.Seed(), "seed of everything random; the environment's SEED, or a new one")
	flag.Parse()
	fmt.Printf("seed %d\n", s.seed)
	f, err := run(ctx, s)
	if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(f)); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}
