package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Benchmark is one of those that the command plays.
type Benchmark struct {
	name string
	play func(ctx context.Context) error
}

// New returns a benchmark of the given name. parse reads its settings from the command line, by package flag, and run
// plays it until it ends or is interrupted.
func New[S any](name string, parse func() (S, error), run func(ctx context.Context, s S) error) Benchmark {
	return Benchmark{name, func(ctx context.Context) error {
		s, err := parse()
		if err != nil {
			return err
		}
		return run(ctx, s)
	}}
}

// Run plays the benchmark that the first argument names, with the others as its command line.
func Run(ctx context.Context, all []Benchmark, args []string) error {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	i := slices.IndexFunc(all, func(b Benchmark) bool { return b.name == name })
	if i < 0 {
		names := Names(all, func(b Benchmark) string { return b.name })
		return fmt.Errorf("%q is none of %s; -help behind one lists its flags", name, strings.Join(names, ", "))
	}
	os.Args = args // which package flag reads
	flag.CommandLine.Init(name, flag.ExitOnError)
	if err := all[i].play(ctx); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
