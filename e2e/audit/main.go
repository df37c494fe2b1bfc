package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main is the end of a program that works with sites, once its flags are parsed. It prints the seed, runs until run
// returns or a signal stops it, prints run's figures as one line of JSON, also when there is an error, and exits with 1
// after one.
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
