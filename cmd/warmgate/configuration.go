package main

import (
	"fmt"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/lint"
	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
)

// configIn returns the only configuration in a file, which may be of any kind that validate reads.
func configIn(f *source.File) (lint.Configuration, error) {
	result := lint.File(f, lint.Auto, true)
	for _, found := range result.Findings {
		if !found.Warning {
			at := f.Position(found.At)
			return lint.Configuration{}, fmt.Errorf("%d:%d: %s", at.Line, at.Column, problem(found))
		}
	}
	if n := len(result.Checked); n != 1 {
		return lint.Configuration{}, fmt.Errorf("has %d configurations of the plugin, want one", n)
	}
	return result.Checked[0], nil
}

func problem(f lint.Finding) string {
	if f.Path == "" {
		return f.Text
	}
	return f.Path + ": " + f.Text
}
