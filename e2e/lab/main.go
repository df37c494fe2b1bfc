package lab

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/warmgate/warmgate/e2e/audit"
)

// Settings are what programs have as flags. Which of the numbers a program uses is up to its scenes.
type Settings struct {
	Version          string // of Envoy
	Servers, Workers int
	Streams          int     // open during each scene
	Rate             float64 // requests a second, over all gateways
	Seed             uint64
	Progress         io.Writer

	Only  []string      // scenes to play; all if empty
	Span  time.Duration // length of a scene's longest part, or of a fault
	Redis string        // version of Redis
	// Numbers of clients and requests: those that arrive at the same moment, that are under way or wait when something
	// breaks, whose clients leave, whose clients leave the queue, that wait in the scene of many, and that are forged.
	Herd, Crowd, Leavers, QueueLeavers, Waiting, Forged int
}

// Flags declares those that every program has.
func (s *Settings) Flags(rate float64) {
	s.Progress = os.Stdout
	flag.StringVar(&s.Version, "version", "",
		"Envoy's version, as in build/envoy; empty: the default, or the binary that ENVOY names")
	flag.IntVar(&s.Servers, "servers", 8, "model servers")
	flag.IntVar(&s.Workers, "workers", 2, "worker threads of each gateway")
	flag.Float64Var(&s.Rate, "rate", rate, "requests a second, over all gateways")
	flag.Uint64Var(&s.Seed, "seed", audit.Seed(), "seed of everything random; the environment's SEED, or a new one")
}

// StreamsFlag declares -streams.
func (s *Settings) StreamsFlag(n int) {
	flag.IntVar(&s.Streams, "streams", n, "streams open during each scene")
}

// Site adds the settings to what a site is to be, and opens it.
func (s *Settings) Site(ctx context.Context, o audit.Options) *audit.Site {
	if o.Servers == 0 {
		o.Servers = s.Servers
	}
	o.Workers, o.Version = s.Workers, s.Version
	return Must(audit.Open(ctx, o))
}

// Main is the end of a program, once its flags are parsed. It prints the seed, runs until run returns or a signal stops
// it, prints run's figures as one line of JSON, also when there is an error, and exits with 1 after one.
func Main[F any](name string, seed uint64, run func(ctx context.Context) (F, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	fmt.Printf("seed %d\n", seed)
	figures, err := run(ctx)
	stop()
	if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(figures)); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
