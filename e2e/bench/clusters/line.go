package main

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
)

// figures are those of a contender, medians of the rounds.
type figures struct {
	P99      float64  `json:"p99_ms"`
	Weighted *float64 `json:"p99_vs_weighted,omitempty"`
	PerVM    *float64 `json:"p99_vs_per_vm,omitempty"` // that of the same mode
	Recovery *float64 `json:"recovery_s,omitempty"`    // of the rounds in which the slow cluster was left
	Never    int      `json:"never_recovered"`         // rounds in which it was not back in time
	Stayed   int      `json:"never_left"`              // rounds in which it was not left
	Back     *float64 `json:"recovery_after_failures_s,omitempty"`
	NotBack  int      `json:"never_back_after_failures"`
	NotLeft  int      `json:"never_left_while_failing"`
	Slowed   float64  `json:"share_while_slow_percent"`
	Failed   float64  `json:"failed_percent"`
}

func (rep *report) figures(c *contender) figures {
	rs := rep.of(c.name)
	median := func(of func(*result) float64) float64 { return bench.SpreadOf(bench.Values(rs, of)).Median }
	slow, fails := backOf(rs, recovery), backOf(rs, back)
	return figures{
		P99: median(p99), Weighted: ratio(rs, rep.of(weighted)), PerVM: ratio(rs, rep.of(c.mode+publishedSuffix)),
		Recovery: slow.median(), Never: slow.never, Stayed: slow.stayed,
		Back: fails.median(), NotBack: fails.never, NotLeft: fails.stayed,
		Slowed: median(slowed), Failed: median(failed),
	}
}

// ratio is of p99, over that of another contender; nil if that was not played.
func ratio(ours, theirs []result) *float64 {
	if len(theirs) == 0 {
		return nil
	}
	median := bench.RatioBy(ours, theirs, p99).Median
	return &median
}

// line is the last line of the output.
type line struct {
	Bench string `json:"bench"`
	Own   string `json:"own"` // the contender that the figures are of
	*figures
	Rounds int                `json:"rounds"`
	Errors int                `json:"errors"` // requests that failed elsewhere than in the one that fails
	All    map[string]figures `json:"contenders"`
	NotMet []string           `json:"not_met,omitempty"` // why target_met is false
	Met    bool               `json:"target_met"`
}

func (rep *report) line() line {
	l := line{Bench: "clusters", Own: rep.settings.own, Rounds: rep.settings.rounds, All: map[string]figures{}}
	for i := range rep.contenders {
		c := &rep.contenders[i]
		f := rep.figures(c)
		l.All[c.name] = f
		if c.name == l.Own {
			l.figures = &f
		}
		for k := range rep.results[i] {
			l.Errors += rep.results[i][k].errors
		}
	}
	l.NotMet = rep.unmet(&l)
	l.Met = len(l.NotMet) == 0
	return l
}

// soon is within how many seconds a cluster that has recovered has to be used again.
const soon = 10

// unmet returns why the targets are not met.
func (rep *report) unmet(l *line) (why []string) {
	not := func(bad bool, format string, args ...any) {
		if bad {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	f := l.figures
	if f == nil {
		return []string{l.Own + " was not played"}
	}
	not(rep.settings.rate != load, "another load than that of the targets")
	not(l.Errors > 0, "%d requests failed elsewhere than in the cluster that fails", l.Errors)
	i := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == l.Own })
	not(f.Weighted == nil, "%s was not played", weighted)
	not(f.PerVM == nil, "%s was not played", rep.contenders[i].mode+publishedSuffix)
	not(f.Weighted != nil && *f.Weighted >= 1, "p99 is not below that of %s", weighted)
	// Requests that fail at once are not in p99: whoever has more of them has less of the rest.
	most := l.All[weighted].Failed
	not(f.Weighted != nil && f.Failed > most, "%.2f %% failed, of %s %.2f %%", f.Failed, weighted, most)
	not(f.Stayed > 0, "the slow cluster was not left in %d of %d rounds", f.Stayed, l.Rounds)
	not(f.Never > 0, "it was not back in %d of %d rounds", f.Never, l.Rounds)
	if f.Recovery != nil {
		not(*f.Recovery > soon, "it was back after %.1f s", *f.Recovery)
	}
	return why
}
