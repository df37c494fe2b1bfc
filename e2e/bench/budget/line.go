package main

import (
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
)

// The targets, of medians; the audit must be 0 in every round.
const (
	targetMakespan  = 0.5
	targetShare     = 0.05
	targetWaits     = 3.0
	targetStampede  = 2.0
	targetPerSecond = 5000
	targetP99       = 20.0 // ms
	// A call may be up to 60 ms longer on its way than another one: in that time a rate brings a thousandth of a
	// minute.
	targetExcess = 1.001
	// After the lease; that is seen 20 ms later at most.
	targetBack = 1.02 // s
)

// figures are those of a contender, medians of the rounds. What was not played is absent.
type figures struct {
	Makespan float64  `json:"makespan_s"`
	Batches  *float64 `json:"makespan_vs_batches,omitempty"`
	Perfect  float64  `json:"makespan_vs_perfect"`
	Share    float64  `json:"share_error_max"`
	Excess   float64  `json:"tpm_excess"` // at most 1 if the rates were held
	Waits    float64  `json:"wait_p99_large_vs_median"`
	Calls    *float64 `json:"asks_max_vs_mean,omitempty"` // in 100 ms, of contenders that ask before they send
	Refused  float64  `json:"refused_by_models"`
	Audit    int      `json:"audit"`                  // of all rounds together
	Back     *float64 `json:"back_after_s,omitempty"` // the longest of all rounds
}

func (rep *report) figures(c *contender) figures {
	rs := rep.of(c.name)
	median := func(of func(*result) float64) float64 { return bench.SpreadBy(rs, of).Median }
	f := figures{
		Makespan: median(makespan), Share: median(shareError) / 100, Excess: median(tpmExcess),
		Waits:   median(waitRatio),
		Refused: median(refused),
		Perfect: median(func(r *result) float64 { return r.makespan.Seconds() / r.perfect.Seconds() }),
	}
	if batches := rep.of(batchesName); batches != nil {
		ratio := bench.RatioBy(rs, batches, makespan).Median
		f.Batches = &ratio
	}
	if c.asks {
		most := median(stampeded)
		f.Calls = &most
	}
	for i := range rs {
		f.Audit += rs[i].audit()
		if back := rs[i].deaths.back.Seconds(); rs[i].deaths.workers > 0 && (f.Back == nil || back > *f.Back) {
			f.Back = &back
		}
	}
	return f
}

// line is the last line of the output.
type line struct {
	Bench string `json:"bench"`
	Own   string `json:"own"` // the contender that the figures are of
	*figures
	Stampede  *float64           `json:"stampede,omitempty"` // asks_max_vs_mean of the crowd
	PerSecond *float64           `json:"schedule_per_s,omitempty"`
	P99       *float64           `json:"schedule_p99_ms,omitempty"` // at half of the target of that
	Rounds    int                `json:"rounds"`
	Tasks     int                `json:"tasks"`
	TTL       float64            `json:"lease_ttl_s"`
	All       map[string]figures `json:"contenders,omitempty"`
	NotMet    []string           `json:"not_met,omitempty"` // why target_met is false
	Met       bool               `json:"target_met"`        // of what was played
}

func (rep *report) line() line {
	s := rep.settings
	l := line{
		Bench: "budget", Own: s.own, Rounds: s.rounds, Tasks: s.tasks, TTL: s.ttl.Seconds(), All: map[string]figures{},
	}
	for i := range rep.contenders {
		c := &rep.contenders[i]
		f := rep.figures(c)
		l.All[c.name] = f
		if c.name == s.own {
			l.figures = &f
		}
	}
	if f, played := l.All[crowdName]; played {
		l.Stampede = f.Calls
	}
	if rep.costs != nil {
		perSecond := bench.SpreadBy(rep.costs, func(c *costs) float64 { return c.perSecond }).Median
		p99 := bench.SpreadBy(rep.costs, func(c *costs) float64 { return bench.MS(c.p99) }).Median
		l.PerSecond, l.P99 = &perSecond, &p99
	}
	l.NotMet = rep.unmet(&l)
	l.Met = len(l.NotMet) == 0
	return l
}

// unmet returns why the targets are not met.
func (rep *report) unmet(l *line) (why []string) {
	not := func(bad bool, format string, args ...any) {
		if bad {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	if f := l.figures; f != nil {
		not(f.Batches == nil, "%s was not played", batchesName)
		not(f.Batches != nil && *f.Batches > targetMakespan, "makespan_vs_batches is above %v", targetMakespan)
		not(f.Share > targetShare, "share_error_max is above %v", targetShare)
		not(f.Excess > targetExcess, "tpm_excess is above %v", targetExcess)
		not(f.Waits > targetWaits, "wait_p99_large_vs_median is above %v", targetWaits)
		not(l.Stampede == nil, "%q was not played", crowdName)
		not(l.Stampede != nil && *l.Stampede > targetStampede, "stampede is above %v", targetStampede)
		killed, played := l.All[killedName]
		not(!played, "%q was not played", killedName)
		not(played && killed.Back == nil, "no worker was killed")
		not(killed.Back != nil && *killed.Back > l.TTL+targetBack, "slots came back after %.2f s", deref(killed.Back))
	}
	for i := range rep.contenders {
		c := &rep.contenders[i]
		not(c.own && l.All[c.name].Audit != 0, "the audit of %q is not 0", c.name)
	}
	not(l.PerSecond != nil && *l.PerSecond < targetPerSecond, "schedule_per_s is below %d", targetPerSecond)
	not(l.P99 != nil && *l.P99 > targetP99, "schedule_p99_ms is above %v", targetP99)
	return why
}

// deref returns what p points to, 0 for nothing.
func deref(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}
