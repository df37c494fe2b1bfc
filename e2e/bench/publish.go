package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Publish prints what a benchmark found: its effective configuration, line by line, its table and further ones, and, as
// the last line, its result as one JSON object. With a path it saves configuration and tables there as well, as
// Markdown for docs/benchmarks.md.
func Publish(w io.Writer, markdown string, configuration []string, t *Table, result any, further ...*Table) error {
	for _, line := range append([]string{""}, append(configuration, "")...) {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	tables := append([]*Table{t}, further...)
	if err := each(w, tables, (*Table).Write); err != nil {
		return err
	}
	if markdown != "" {
		if err := save(markdown, configuration, tables); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(result)
}

// each writes the tables with an empty line between them.
func each(w io.Writer, tables []*Table, write func(*Table, io.Writer) error) error {
	for i, t := range tables {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := write(t, w); err != nil {
			return err
		}
	}
	return nil
}

func save(path string, configuration []string, tables []*Table) error {
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
	if err := each(f, tables, (*Table).WriteMarkdown); err != nil {
		return err
	}
	return f.Close()
}
