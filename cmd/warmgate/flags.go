package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warmgate/warmgate/internal/simulate"
)

// tokens is a flag: a number, which may end in k or M.
type tokens int

func (n *tokens) String() string { return strconv.Itoa(int(*n)) }

func (n *tokens) Type() string { return "number" }

func (n *tokens) Set(text string) error {
	digits, times := text, 1.0
	if i := strings.IndexAny(text, "kKM"); i >= 0 && i == len(text)-1 {
		digits, times = text[:i], map[byte]float64{'k': 1e3, 'K': 1e3, 'M': 1e6}[text[i]]
	}
	v, err := strconv.ParseFloat(digits, 64)
	if v *= times; err != nil || !(v >= 0 && v <= 1e9) || v != math.Trunc(v) {
		return errors.New("want a whole number like 3000 or 3k, and 1000M at most")
	}
	*n = tokens(v)
	return nil
}

// shares is a flag: service classes with the weights of their users.
type shares []simulate.Share

func (s *shares) String() string {
	var parts []string
	for _, c := range *s {
		parts = append(parts, fmt.Sprintf("%s=%g", c.Class, c.Weight))
	}
	return strings.Join(parts, ",")
}

func (s *shares) Type() string { return "name=weight" }

func (s *shares) Set(text string) error {
	name, weight, _ := strings.Cut(text, "=")
	w, err := strconv.ParseFloat(weight, 64)
	if name == "" || err != nil || !(w > 0 && w <= 1e9) {
		return errors.New("want a name and a positive weight like batch=0.2")
	}
	*s = append(*s, simulate.Share{Class: name, Weight: w})
	return nil
}

// choice is a flag: one of several words.
type choice struct {
	word *string
	of   []string
}

func (c choice) String() string {
	if c.word == nil { // as pflag makes one, to compare with
		return ""
	}
	return *c.word
}

func (c choice) Type() string { return "string" }

func (c choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return fmt.Errorf("want one of %s", strings.Join(c.of, ", "))
	}
	*c.word = text
	return nil
}

// choiceFlag adds a flag for one of several words, the first of which is the default.
func choiceFlag(command *cobra.Command, into *string, name, shorthand, usage string, of ...string) {
	*into = of[0]
	command.Flags().VarP(choice{into, of}, name, shorthand, usage)
	complete := cobra.FixedCompletions(of, cobra.ShellCompDirectiveNoFileComp)
	if err := command.RegisterFlagCompletionFunc(name, complete); err != nil {
		panic(err) // the flag is there
	}
}

// outputFlag adds the flag for the format of what a command prints. The first one is the default.
func outputFlag(command *cobra.Command, into *string, formats ...string) {
	choiceFlag(command, into, "output", "o", "format: "+strings.Join(formats, ", "), formats...)
}
