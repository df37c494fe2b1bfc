package regions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result] // by cell
	settings           settings
	cells              []cell
	contenders         []contender
}

func (rep *report) table() *bench.Table {
	return rep.Tabulate(columns, "workload@load, contender: median (min..max)")
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		"machine: " + bench.Machine() + "; users, servers and gateways of all regions share it",
		fmt.Sprintf("regions %v, each with %d servers and a gateway of %d workers, and one central gateway, in %s; "+
			"all in the shipped plain layout, switched by configuration from one contender to the next",
			names, servers, s.Workers, names[0]),
		fmt.Sprintf("%v for a round trip between two regions: what goes from one to another is delayed by half of "+
			"that, either way; connecting takes no time", s.rtt),
		fmt.Sprintf("%d contenders at a time are played side by side, each with gateways and servers of its own, "+
			"which the next one takes over; the cores of users and servers are those of all of them", s.Lanes),
		fmt.Sprintf("%d rounds with seeds from %d; caches are emptied before each run; every request streams and "+
			"carries its conversation or tree in %s; TTFT counts from the moment the user sent; of each run, %v "+
			"warm up and %v are measured; what is under way %v later is cut off, and counts as begun then; the cached "+
			"share is of whole answers; %v times the users of the targets",
			s.Rounds, s.Seed, scripted.SessionHeader, s.warm, s.span, rest, s.scale),
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
	return append(lines, rep.Notes...)
}

// busy is the share of the machine's CPU time beyond which its own limits show in the figures.
const busy = 0.8

// noteLimits tells which runs this machine was too small for.
func (rep *report) noteLimits() {
	rep.Each(func(cell, contender string, runs []result) {
		used := slices.MaxFunc(runs, func(a, b result) int { return cmp.Compare(machine(&a), machine(&b)) }).cpu
		if used.Machine > busy {
			rep.Note("%s, %s: %.0f %% of the machine's CPU time were used, %.2f cores of it by users, servers and "+
				"Envoys: its limits show", cell, contender, 100*used.Machine, used.Own+used.Gateways)
		}
	})
}

func allFailed(runs []result) (n int) {
	for i := range runs {
		n += runs[i].Failed
	}
	return n
}

func allUnanswered(runs []result) (sum unanswered) {
	for i := range runs {
		sum = sum.add(runs[i].unanswered)
	}
	return sum
}
