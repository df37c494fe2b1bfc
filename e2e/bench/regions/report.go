package regions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
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

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{
		fmt.Sprintf("regions %v, each with a gateway and %d servers of %s; one central gateway, in %s", names, servers,
			compare.Describe(engine()), names[0]),
		fmt.Sprintf("every request carries its conversation or tree in %s; what is under way %v after a run is cut "+
			"off, and counts as begun then; the cached share is of whole answers; one system prompt of %d tokens, "+
			"answers log-normal %+v",
			scripted.SessionHeader, rest, system, answers),
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
