package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

// report is the output of the benchmark.
type report struct {
	settings   settings
	notes      []string
	cells      []cell
	contenders []contender
	results    [][][]result // by cell, then by contender, then by round
}

func (rep *report) table() *bench.Table {
	t := columns.Table("workload@load, contender: median (min..max)")
	for i := range rep.cells {
		for k := range rep.contenders {
			if len(rep.results[i][k]) == 0 {
				continue
			}
			t.Add(columns.Row(rep.results[i][k], rep.cells[i].key()+", "+rep.contenders[k].name)...)
		}
	}
	return t
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		"machine: " + bench.Machine() + "; users, servers and gateways of all regions share it",
		fmt.Sprintf("regions %v, each with %d servers and a gateway of %d workers, and one central gateway, in %s; "+
			"all in the shipped plain layout, switched by configuration from one contender to the next",
			names, servers, s.workers, names[0]),
		fmt.Sprintf("%v for a round trip between two regions: what goes from one to another is delayed by half of "+
			"that, either way; connecting takes no time", s.rtt),
		fmt.Sprintf("%d contenders at a time are played side by side, each with gateways and servers of its own, "+
			"which the next one takes over; the cores of users and servers are those of all of them", s.lanes),
		fmt.Sprintf("%d rounds with seeds from %d; caches are emptied before each run; every request streams and "+
			"carries its conversation or tree in %s; TTFT counts from the moment the user sent; of each run, %v "+
			"warm up and %v are measured; what is under way %v later is cut off, and counts as begun then; the cached "+
			"share is of whole answers; %v times the users of the targets",
			s.rounds, s.seed, scripted.SessionHeader, s.warm, s.span, rest, s.scale),
		describeServers(),
	}
	var last string
	for i := range rep.cells {
		if c := &rep.cells[i]; c.name != last {
			lines, last = append(lines, c.describe()), c.name
		}
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].name+": "+rep.contenders[i].describe())
	}
	return append(lines, rep.notes...)
}

// note keeps a remark for the reader of the figures: it is printed at once and again with the configuration.
func (rep *report) note(text string) {
	fmt.Println(text)
	rep.notes = append(rep.notes, text)
}

// busy is the share of the machine's CPU time beyond which its own limits show in the figures.
const busy = 0.8

// noteLimits tells which runs this machine was too small for.
func (rep *report) noteLimits() {
	for i := range rep.cells {
		for k := range rep.contenders {
			if len(rep.results[i][k]) == 0 {
				continue
			}
			used := slices.MaxFunc(rep.results[i][k], func(a, b result) int {
				return cmp.Compare(machine(&a), machine(&b))
			}).cpu
			if used.Machine > busy {
				rep.note(fmt.Sprintf("%s, %s: %.0f %% of the machine's CPU time were used, %.2f cores of it by users, "+
					"servers and Envoys: its limits show", rep.cells[i].key(), rep.contenders[k].name, 100*used.Machine,
					used.Own+used.Gateways))
			}
		}
	}
}

// rounds returns what a contender did in cell i, or nothing if it was not played.
func (rep *report) rounds(i int, contenderName string) []result {
	k := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == contenderName })
	if k < 0 {
		return nil
	}
	return rep.results[i][k]
}

// errors counts the requests of all runs that failed.
func (rep *report) errors() int {
	n := 0
	for _, byContender := range rep.results {
		for _, rounds := range byContender {
			n += allFailed(rounds)
		}
	}
	return n
}

func allFailed(rounds []result) (n int) {
	for i := range rounds {
		n += rounds[i].Failed
	}
	return n
}

func allUnanswered(rounds []result) (sum unanswered) {
	for i := range rounds {
		sum = sum.add(rounds[i].unanswered)
	}
	return sum
}
