package simload

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Span is a figure of a real gateway: the median of its rounds, the smallest and the largest.
type Span struct{ Median, Least, Most float64 }

// Tabulated reads figures of a Markdown table in a page of the repository: those of the columns, by row. The table is
// the first one whose head has all of the columns and that has the row.
func Tabulated(page, row string, columns ...string) (map[string]map[string]Span, error) {
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, err
	}
	return tabulated(string(text), page, row, columns)
}

// tabulated reads figures of a page.
func tabulated(text, page, row string, columns []string) (map[string]map[string]Span, error) {
	var head []string
	all := map[string]map[string]Span{}
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| ") {
			if all[row] != nil {
				return all, nil
			}
			head, all = nil, map[string]map[string]Span{}
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if head == nil {
			head = cells
			continue
		}
		figures := map[string]Span{}
		for _, c := range columns {
			i := slices.Index(head, c)
			if i < 0 || i >= len(cells) {
				continue
			}
			if s, err := spanOf(cells[i]); err == nil {
				figures[c] = s
			}
		}
		if len(figures) == len(columns) {
			all[cells[0]] = figures
		}
	}
	return nil, fmt.Errorf("%s: no table with the row %q and the columns %q", page, row, columns)
}

// spanOf reads "12.3 (11.0..14.0)".
func spanOf(cell string) (s Span, err error) {
	words := strings.FieldsFunc(cell, func(r rune) bool { return strings.ContainsRune(" ()", r) })
	if len(words) != 2 {
		return s, errors.New("no figure with a spread")
	}
	least, most, _ := strings.Cut(words[1], "..")
	var errs [3]error
	s.Median, errs[0] = strconv.ParseFloat(words[0], 64)
	s.Least, errs[1] = strconv.ParseFloat(least, 64)
	s.Most, errs[2] = strconv.ParseFloat(most, 64)
	return s, errors.Join(errs[:]...)
}

// outsideNoise compares two figures: 0 if their rounds overlap.
func outsideNoise(a, b Span) int {
	if a.Least <= b.Most && b.Least <= a.Most {
		return 0
	}
	return cmp.Compare(a.Median, b.Median)
}

// Ranking is how many pairs of contenders differ with the real gateway beyond the noise of its rounds, and how many of
// these are ranked in the same way by a simulation.
type Ranking struct {
	Pairs, Same int
	Otherwise   []string // pairs that are not
}

// Add ranks contenders by each of the figures that were both measured and simulated.
func (r *Ranking) Add(measured map[string]map[string]Span, simulated map[string]map[string]float64) {
	var names []string
	for n := range simulated {
		names = append(names, n)
	}
	slices.Sort(names)
	for i, a := range names {
		for _, b := range names[:i] {
			for column, got := range simulated[a] {
				want := outsideNoise(measured[a][column], measured[b][column])
				if want == 0 {
					continue
				}
				if r.Pairs++; want == cmp.Compare(got, simulated[b][column]) {
					r.Same++
					continue
				}
				r.Otherwise = append(r.Otherwise, fmt.Sprintf("%s and %s by %s", b, a, column))
			}
		}
	}
}

// Share is the part of the pairs that is ranked in the same way.
func (r *Ranking) Share() float64 { return float64(r.Same) / float64(r.Pairs) }
