package bench

import (
	"fmt"
	"math"
)

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
