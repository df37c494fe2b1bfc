package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Publish prints what a benchmark found: machine, flags and what else was compared, line by line, its table and further
// ones, and, as the last line, its result as one JSON object. With a path, such as docs/benchmarks/prefix.md, it saves
// all but the last line there as well, as Markdown between the marks "bench-prefix".
func Publish(w io.Writer, markdown string, configuration []string, t *Table, result any, further ...*Table) error {
	configuration = append(common(), configuration...)
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

// common returns on what a benchmark runs, and how it was called, with the flags that were not given.
func common() []string {
	flags := "flags:"
	flag.VisitAll(func(f *flag.Flag) {
		if value := f.Value.String(); value != "" && f.Name != "markdown" && !strings.HasPrefix(f.Name, "test.") {
			flags += " -" + f.Name + " " + value
		}
	})
	return []string{"machine: " + Machine() + "; everything runs on it", flags}
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

// save writes configuration and tables between the marks of a file, which are named as the file is. What is around them
// stays; a file without them gets them at its end.
func save(path string, configuration []string, tables []*Table) error {
	var run strings.Builder
	for _, line := range configuration {
		fmt.Fprintln(&run, "-", line)
	}
	fmt.Fprintln(&run)
	if err := each(&run, tables, (*Table).WriteMarkdown); err != nil {
		return err
	}
	name := "bench-" + strings.TrimSuffix(filepath.Base(path), ".md")
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	head, rest, _ := strings.Cut(string(text), begin)
	_, tail, _ := strings.Cut(rest, end)
	return os.WriteFile(path, []byte(head+begin+"\n"+run.String()+"\n"+end+tail), 0o644)
}
