package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

// Main reads the settings of a benchmark of the given name, runs it until it ends or is interrupted, and exits with 1
// if either fails.
func Main[S any](name string, parse func() (S, error), run func(ctx context.Context, s S) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	s, err := parse()
	if err == nil {
		err = run(ctx, s)
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
