package main

import "github.com/warmgate/warmgate/e2e/bench"

// The targets, of medians; none of the critical class may be lost in any round.
const (
	targetTwice   = 0.95
	targetTenfold = 0.90
	targetRefusal = 5.0 // ms
)

// figures are those of a contender, medians of the rounds. What was not played is absent.
type figures struct {
	Twice   *float64 `json:"goodput_2x,omitempty"`  // at twice the capacity, over the best of all loads
	Tenfold *float64 `json:"goodput_10x,omitempty"` // at ten times
	Refusal *float64 `json:"refusal_p99_ms"`        // of refusals without a wait, at the worst load; null = there are none
	Lost    int      `json:"critical_lost"`         // in all rounds at all loads
	Wrongly int      `json:"false_refusals"`        // the same
	Late    int      `json:"late_accepted"`         // the same
}

// line is the last line of the output.
type line struct {
	Bench string `json:"bench"`
	Own   string `json:"own"` // the contender that the figures are of
	figures
	TwiceAll   *bench.Spread      `json:"goodput_2x_spread,omitempty"`
	TenfoldAll *bench.Spread      `json:"goodput_10x_spread,omitempty"`
	Best       *bench.Spread      `json:"best_goodput,omitempty"`                 // a second
	Capacity   float64            `json:"capacity"`                               // requests a second
	VsPriority *float64           `json:"vs_priority_breakers_goodput,omitempty"` // at twice the capacity
	VsLimit    *float64           `json:"vs_oracle,omitempty"`                    // the same, to the limit with lengths
	VsBlind    *float64           `json:"vs_oracle_without_lengths,omitempty"`
	All        map[string]figures `json:"contenders"`
	LateMS     float64            `json:"late_p99_ms"` // of the generator, the most of all runs
	Rounds     int                `json:"rounds"`
	Workers    int                `json:"workers"`
	Met        bool               `json:"target_met"` // the four figures of the loads, of runs that were on time
	found
}

func (rep *report) line() line {
	s := rep.settings
	l := line{
		Bench: "overload", Own: s.own, Capacity: rep.capacity, Rounds: s.rounds, Workers: s.workers,
		All: map[string]figures{}, LateMS: bench.MS(rep.latest()), found: rep.found,
	}
	for _, c := range rep.contenders {
		l.All[c.name] = rep.figures(c.name)
	}
	var ok bool
	if l.figures, ok = l.All[s.own]; !ok {
		return l
	}
	best := bench.SpreadOf(rep.best(s.own))
	l.Best = &best
	if l.Twice != nil {
		all := rep.ofBest(s.own, 2)
		l.TwiceAll = &all
	}
	l.VsPriority, l.VsLimit, l.VsBlind = rep.against(priorityName), rep.against(limitName), rep.against(limitBlindName)
	if l.Tenfold != nil {
		all := rep.ofBest(s.own, 10)
		l.TenfoldAll = &all
	}
	l.Met = l.Twice != nil && *l.Twice >= targetTwice && l.Tenfold != nil && *l.Tenfold >= targetTenfold &&
		l.Refusal != nil && *l.Refusal <= targetRefusal && l.Lost == 0 && rep.latest() <= mostLate
	return l
}

// figures returns those of a contender.
func (rep *report) figures(name string) figures {
	var f figures
	ratio := func(load float64) *float64 {
		if len(rep.at(name, load)) == 0 {
			return nil
		}
		median := rep.ofBest(name, load).Median
		return &median
	}
	f.Twice, f.Tenfold = ratio(2), ratio(10)
	for _, load := range rep.settings.loads {
		runs, refusals := rep.at(name, load), 0
		for i := range runs {
			f.Lost += runs[i].lost
			refusals += runs[i].refused
			f.Wrongly += runs[i].wrongly
			f.Late += runs[i].accepted
		}
		if p99 := bench.SpreadBy(runs, refusalP99).Median; refusals > 0 && (f.Refusal == nil || p99 > *f.Refusal) {
			f.Refusal = &p99
		}
	}
	return f
}

// against returns our goodput over another's at twice the capacity; nil if either was not played.
func (rep *report) against(name string) *float64 {
	ours, theirs := rep.at(rep.settings.own, 2), rep.at(name, 2)
	if len(ours) == 0 || len(theirs) == 0 {
		return nil
	}
	ratio := bench.RatioBy(ours, theirs, goodput).Median
	return &ratio
}
