package bench

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Column is one measured quantity of runs of type R, and how its spread is shown.
type Column[R any] struct {
	Head, Verb string
	Of         func(*R) float64
}

// Col returns a column.
func Col[R any](head, verb string, of func(*R) float64) Column[R] { return Column[R]{head, verb, of} }

// Columns are those of a table with a row for each contender, whose runs are reduced to spreads.
type Columns[R any] []Column[R]

// Table returns a table without rows whose first columns have the given heads.
func (cs Columns[R]) Table(first ...string) *Table {
	t := &Table{Head: first}
	for _, c := range cs {
		t.Head = append(t.Head, c.Head)
	}
	return t
}

// Row returns the spread of every quantity over the runs, after the given cells.
func (cs Columns[R]) Row(runs []R, first ...string) []string {
	for _, c := range cs {
		first = append(first, SpreadBy(runs, c.Of).Format(c.Verb))
	}
	return first
}

// Show returns every quantity of one run, behind its head.
func (cs Columns[R]) Show(run *R) string {
	parts := make([]string, len(cs))
	for i, c := range cs {
		parts[i] = fmt.Sprintf("%s "+c.Verb, c.Head, c.Of(run))
	}
	return strings.Join(parts, "  ")
}

// Values returns one quantity of the runs, in their order.
func Values[R any](runs []R, of func(*R) float64) []float64 {
	out := make([]float64, len(runs))
	for i := range runs {
		out[i] = of(&runs[i])
	}
	return out
}

// SpreadBy returns the spread of one quantity over the runs.
func SpreadBy[R any](runs []R, of func(*R) float64) Spread { return SpreadOf(Values(runs, of)) }

// RatioBy divides one quantity of paired runs round by round, as Ratios does.
func RatioBy[R any](num, den []R, of func(*R) float64) Spread {
	return Ratios(Values(num, of), Values(den, of))
}

// Rounds plays n contenders once a round, in the order that Order returns, and returns what play returns by contender,
// then by round. prepare, unless it is nil, is called at the beginning of each round.
func Rounds[R any](rounds, n int, prepare func(round int) error, play func(round, i int) (R, error)) ([][]R, error) {
	results := make([][]R, n)
	for round := range rounds {
		if prepare != nil {
			if err := prepare(round); err != nil {
				return nil, err
			}
		}
		for _, i := range Order(n, round) {
			r, err := play(round, i)
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// MS returns a duration in ms.
func MS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Percent returns the share that n has of a number, in percent; 0 if there is nothing.
func Percent(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }

// Numbers reads positive numbers that are divided by commas.
func Numbers(list string) ([]int, error) {
	var out []int
	for _, field := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of positive numbers", list)
		}
		out = append(out, n)
	}
	return out, nil
}
