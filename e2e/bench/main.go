package bench

import (
	"context"
	"fmt"
	"os"
	"os/signal"
)

// Main runs a benchmark of the given name until it ends or is interrupted, and exits with 1 if it fails.
func Main(name string, run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}
