package main

import (
	"fmt"
	"slices"
)

// target is what a figure of the last line, a median, has to reach.
type target struct {
	name   string
	figure *float64
	limit  float64
	most   bool // it is the highest value; else the lowest
}

func (l *line) targets() []target {
	return []target{
		{"throughput_vs_local", l.Throughput, 1.15, false},
		{"nine_vs_twelve", l.Nine, 0.97, false},
		{"ttft_p50_vs_central", l.P50, 0.58, true},
		{"ttft_p90_vs_central", l.P90, 0.24, true},
		{"cached_share_vs_best", l.Cached, -0.01, false},
	}
}

// unmet returns why the targets are not met. It begins with what takes the meaning from the figures.
func (rep *report) unmet(l *line) []string {
	why := rep.unplayed()
	if rep.settings.scale != 1 || rep.settings.rtt != apart {
		why = append(why, "another load or distance than that of the targets")
	}
	if l.Errors > 0 {
		why = append(why, fmt.Sprintf("%d requests failed", l.Errors))
	}
	for i := range rep.cells {
		c := &rep.cells[i]
		ours := rep.rounds(i, l.Own)
		if c.load == skewed && len(ours) > 0 && len(allForwarded(ours)) == 0 {
			why = append(why, c.key()+": nothing was forwarded")
		}
		long := allUnanswered(slices.Concat(ours, rep.rounds(i, l.Own+nine))).long
		if long > 0 {
			why = append(why, fmt.Sprintf("%s: %d requests without a token after %v", c.key(), long, tooLong))
		}
	}
	for _, t := range l.targets() {
		if t.figure != nil && (t.most && *t.figure > t.limit || !t.most && *t.figure < t.limit) {
			why = append(why, fmt.Sprintf("%s is %.3f, not %g", t.name, *t.figure, t.limit))
		}
	}
	return why
}

// unplayed names the cells that a target needs and that were not played, and, in those that were, the contenders.
func (rep *report) unplayed() (why []string) {
	all, _ := cells("", "", 1) // of no names all are known
	for i := range all {
		at := slices.IndexFunc(rep.cells, func(c cell) bool { return c.key() == all[i].key() })
		if at < 0 {
			why = append(why, all[i].key()+" was not played")
			continue
		}
		for _, name := range needed(&all[i], rep.settings.own) {
			if len(rep.rounds(at, name)) == 0 {
				why = append(why, fmt.Sprintf("%s: %s was not played", all[i].key(), name))
			}
		}
	}
	return why
}

// needed returns whom the targets of the own contender need in a cell.
func needed(at *cell, own string) []string {
	list := []string{own}
	if at.load == skewed {
		list = append(list, own+nine)
	}
	for _, c := range contenders(apart) {
		if !c.asked && !c.added && c.playedOn(at) && !slices.Contains(list, c.name) {
			list = append(list, c.name)
		}
	}
	return list
}
