// Package bench holds what the benchmarks share: robust statistics over paired runs, the order of those runs, a
// description of the machine, and tables.
package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/perf/benchmath"
)

// Spread is the median of repeated measurements, with the smallest and largest of them.
type Spread struct {
	Median float64     `json:"median"`
	Min    float64     `json:"min"`
	Max    float64     `json:"max"`
	CI     *[2]float64 `json:"ci95,omitempty"` // confidence interval of the median; nil below 6 measurements
}

// confidence of Spread.CI. The interval makes no assumption on the distribution of the measurements.
const confidence = 0.95

// SpreadOf returns the spread of xs, or the zero Spread if there are none. The median of an even number of values is
// the mean of the two in the middle.
func SpreadOf(xs []float64) Spread {
	n := len(xs)
	if n == 0 {
		return Spread{}
	}
	sample := benchmath.NewSample(slices.Clone(xs), &benchmath.DefaultThresholds)
	s := sample.Values
	out := Spread{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1]}
	if sum := benchmath.AssumeNothing.Summary(sample, confidence); len(sum.Warnings) == 0 {
		out.CI = &[2]float64{sum.Lo, sum.Hi}
	}
	return out
}

// SpreadIfAny is SpreadOf, but nil for no values.
func SpreadIfAny(xs []float64) *Spread {
	if len(xs) == 0 {
		return nil
	}
	s := SpreadOf(xs)
	return &s
}

// Ratios divides paired measurements run by run: num[i]/den[i] come from the same round, so a disturbance that lasts
// longer than a round cancels out. Nothing over nothing is 1.
func Ratios(num, den []float64) Spread {
	n := min(len(num), len(den))
	r := make([]float64, n)
	for i := range r {
		if r[i] = num[i] / den[i]; num[i] == 0 && den[i] == 0 {
			r[i] = 1
		}
	}
	return SpreadOf(r)
}

// Format renders the spread as "median (min..max)" with the given verb, for example "%.1f", and with " [low, high]",
// the confidence interval, if there is one.
func (s Spread) Format(verb string) string {
	text := fmt.Sprintf(verb+" ("+verb+".."+verb+")", s.Median, s.Min, s.Max)
	if s.CI != nil {
		text += fmt.Sprintf(" ["+verb+", "+verb+"]", s.CI[0], s.CI[1])
	}
	return text
}

// Order returns the order in which the n candidates run in a round: every candidate takes every place equally often
// over n rounds, so that none profits from always running first.
func Order(n, round int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = (i + round) % n
	}
	return order
}

// Machine describes the hardware and the operating system in one line.
func Machine() string {
	return fmt.Sprintf("%d × %s, %s, %s", runtime.NumCPU(), cpuModel(), kernel(), runtime.Version())
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "model name"); ok {
			return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), ":"))
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return runtime.GOOS
	}
	return "Linux " + strings.TrimSpace(string(release))
}

// Table is a table whose first column is left-aligned and whose others are right-aligned.
type Table struct {
	Head []string
	Rows [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Last returns the last n rows, for the reader who waits.
func (t *Table) Last(n int) string {
	var lines []string
	for _, row := range t.Rows[len(t.Rows)-n:] {
		lines = append(lines, strings.Join(row, "  "))
	}
	return strings.Join(lines, "\n")
}

// Write prints the table in columns for a terminal.
func (t *Table) Write(w io.Writer) error {
	width := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, c := range row {
			width[i] = max(width[i], len([]rune(c)))
		}
	}
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		var b strings.Builder
		for i, c := range row {
			if pad := strings.Repeat(" ", width[i]-len([]rune(c))); i == 0 {
				b.WriteString(c + pad)
			} else {
				b.WriteString("  " + pad + c)
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// WriteMarkdown prints the table as Markdown.
func (t *Table) WriteMarkdown(w io.Writer) error {
	rule := make([]string, len(t.Head))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0] = "---"
	for _, row := range append([][]string{t.Head, rule}, t.Rows...) {
		if _, err := fmt.Fprintln(w, "| "+strings.Join(row, " | ")+" |"); err != nil {
			return err
		}
	}
	return nil
}

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
