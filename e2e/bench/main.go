package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
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

// Settings are those that most benchmarks have as flags.
type Settings struct {
	Rounds   int
	Workers  int
	Lanes    int
	Seed     uint64
	Own      string // the contender that the last line is about
	Markdown string
}

// Flags declares the flags -rounds, -seed and -markdown.
func (s *Settings) Flags(rounds int) {
	s.RoundsFlags(rounds)
	flag.Uint64Var(&s.Seed, "seed", 1, "seed of the first round")
}

// RoundsFlags declares -rounds and -markdown, for what draws nothing at random.
func (s *Settings) RoundsFlags(rounds int) {
	flag.IntVar(&s.Rounds, "rounds", rounds, "paired rounds")
	flag.StringVar(&s.Markdown, "markdown", "", "also write what was compared and the tables into this file")
}

// WorkersFlag declares -workers.
func (s *Settings) WorkersFlag(n int) {
	flag.IntVar(&s.Workers, "workers", n, "worker threads of each gateway")
}

// LanesFlag declares -lanes.
func (s *Settings) LanesFlag(n int) {
	flag.IntVar(&s.Lanes, "lanes", n, "contenders that are played side by side, each with servers of its own")
}

// OwnFlag declares -own.
func (s *Settings) OwnFlag(own string) {
	flag.StringVar(&s.Own, "own", own, "the contender that the last line compares with the others")
}

// Valid refuses settings that play nothing.
func (s *Settings) Valid() error {
	if s.Rounds < 1 || s.Lanes < 0 {
		return errors.New("-rounds and -lanes must be at least 1")
	}
	return nil
}

// List is a flag of positive numbers, divided by commas.
type List[T int | float64] []T

// String implements flag.Value.
func (l *List[T]) String() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint([]T(*l)), "[]"), " ", ",")
}

// Set implements flag.Value.
func (l *List[T]) Set(text string) error {
	*l = nil
	for _, field := range strings.Split(text, ",") {
		x, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
		if err != nil || !(x > 0 && x < 1e15) || float64(T(x)) != x {
			return fmt.Errorf("%q is not a list of positive numbers", text)
		}
		*l = append(*l, T(x))
	}
	return nil
}

// OnlyFlag declares a flag that names some of all, for Named.
func OnlyFlag(p *string, name string, all []string) {
	flag.StringVar(p, name, "", "only these, divided by commas: "+strings.Join(all, ", "))
}

// Notes are remarks for the reader of the figures.
type Notes []string

// Note keeps a remark, and prints it at once.
func (n *Notes) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Println(text)
	*n = append(*n, text)
}

// Named returns the elements of all that the list names, divided by commas, in the order of all; an empty list names
// all.
func Named[T any](all []T, list string, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted := strings.Split(list, ",")
	var out []T
	for _, x := range all {
		if i := slices.Index(wanted, name(x)); i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			out = append(out, x)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("there is no %s", strings.Join(wanted, ", no "))
	}
	return out, nil
}

// Names returns the names of all.
func Names[T any](all []T, name func(T) string) []string {
	out := make([]string, len(all))
	for i, x := range all {
		out[i] = name(x)
	}
	return out
}
