package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Publish prints what a benchmark found: its effective configuration, line by line, its table, and, as the last line, its
// result as one JSON object. With a path it saves configuration and table there as well, as Markdown for docs/benchmarks.md.
func Publish(w io.Writer, markdown string, configuration []string, t *Table, result any) error {
	for _, line := range append([]string{""}, append(configuration, "")...) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	if err := t.Write(w); err != nil {
		return err
	}
	if markdown != "" {
		if err := save(markdown, configuration, t); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(result)
}

func save(path string, configuration []string, t *Table) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, line := range configuration {
		if _, err := fmt.Fprintln(f, "-", line); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(f); err != nil {
		return err
	}
	if err := t.WriteMarkdown(f); err != nil {
		return err
	}
	return f.Close()
}
