package config

import (
	"errors"
	"strconv"
	"strings"
)

// findings are what is wrong with one configuration, or with one call.
type findings struct {
	problems []string
	count    int // of problems, those not kept included
	warnings []string
	most     int // how many of each are kept, if more than maxProblems
}

// maxProblems is how many problems, and how many warnings, are kept.
const maxProblems = 50

func (f *findings) limit() int { return max(f.most, maxProblems) }

// What is between the path of a key and what is to be said of it.
const (
	behindProblem = ": "
	behindWarning = " "
)

// bad adds a problem at a key. It is not inlined at its many callers, for the size of the artifacts.
//
//go:noinline
func (f *findings) bad(at, what string) {
	if f.count++; f.count <= f.limit() {
		f.problems = append(f.problems, at+behindProblem+what)
	}
}

// badValue adds a problem with the value of a key.
//
//go:noinline
func (f *findings) badValue(at string, v value, what string) { f.bad(at, got(v)+what) }

// warn adds a warning, and is not inlined either.
//
//go:noinline
func (f *findings) warn(at, what string) {
	if len(f.warnings) < f.limit() {
		f.warnings = append(f.warnings, at+behindWarning+what)
	}
}

// err returns all problems, one in a line.
func (f *findings) err() error {
	noun := " problems"
	if f.count == 1 {
		noun = " problem"
	}
	text := "config: " + strconv.Itoa(f.count) + noun + "\n  " + strings.Join(f.problems, "\n  ")
	if more := f.count - len(f.problems); more > 0 {
		text += "\n  and " + strconv.Itoa(more) + " more"
	}
	return errors.New(text)
}

// callErr returns all problems in one line, nil if there are none.
func (f *findings) callErr() error {
	if f.count == 0 {
		return nil
	}
	text := strings.Join(f.problems, "; ")
	if more := f.count - len(f.problems); more > 0 {
		text += "; and " + strconv.Itoa(more) + " more"
	}
	return errors.New(text)
}
