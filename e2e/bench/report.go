package bench

import (
	"fmt"
	"math"
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

// Line is the last line of the output of a benchmark, one JSON object. What was not measured is not in it.
type Line map[string]any

// Figure adds the median of a spread under its name, and all of it as name_spread, unless it is nil.
func (l Line) Figure(name string, s *Spread) {
	if s != nil {
		l[name], l[name+"_spread"] = s.Median, *s
	}
}

// Spread adds a spread under its name, unless it is nil.
func (l Line) Spread(name string, s *Spread) {
	if s != nil {
		l[name] = *s
	}
}

// Number adds a number under its name, unless it is nil.
func (l Line) Number(name string, x *float64) {
	if x != nil {
		l[name] = *x
	}
}

// Medians adds the median of each of the quantities over the runs, under its name.
func Medians[R any](l Line, runs []R, quantities map[string]func(*R) float64) {
	for name, of := range quantities {
		l[name] = SpreadBy(runs, of).Median
	}
}

// Worst adds a number under its name unless one is there that is worse: higher if most is true, else lower.
func (l Line) Worst(name string, x float64, most bool) {
	if before := l.Value(name); math.IsNaN(before) || most && x > before || !most && x < before {
		l[name] = x
	}
}

// Value returns the number of that name; NaN, with which no comparison is true, if there is none.
func (l Line) Value(name string) float64 {
	if x, ok := l[name].(float64); ok {
		return x
	}
	return math.NaN()
}

// Target is what a figure of the last line has to reach.
type Target struct {
	Name  string
	Limit float64
	Least bool // the limit is the lowest value; else the highest
}

// met reports whether a number reaches the target.
func (t Target) met(x float64) bool { return t.Least && x >= t.Limit || !t.Least && x <= t.Limit }

// Missed returns the targets that were measured and not reached, in their order.
func (l Line) Missed(targets []Target) []Target {
	var missed []Target
	for _, t := range targets {
		if x := l.Value(t.Name); !math.IsNaN(x) && !t.met(x) {
			missed = append(missed, t)
		}
	}
	return missed
}

// Meets reports whether all targets were measured and reached.
func (l Line) Meets(targets []Target) bool {
	for _, t := range targets {
		if !t.met(l.Value(t.Name)) {
			return false
		}
	}
	return true
}

// Reasons are why targets are not met.
type Reasons []string

// If adds a reason if something is so.
func (r *Reasons) If(so bool, format string, args ...any) {
	if so {
		*r = append(*r, fmt.Sprintf(format, args...))
	}
}

// Judge adds target_met, and not_met with the reasons, if there are any.
func (l Line) Judge(not Reasons) {
	if len(not) > 0 {
		l["not_met"] = not
	}
	l["target_met"] = len(not) == 0
}

// TargetNames returns the names of the targets.
func TargetNames(targets []Target) []string {
	return append([]string{}, Names(targets, func(t Target) string { return t.Name })...)
}

// median of a spread, nil if there is none.
func (s *Spread) median() *float64 {
	if s == nil {
		return nil
	}
	return &s.Median
}
