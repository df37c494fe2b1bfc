package bench

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
)

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
