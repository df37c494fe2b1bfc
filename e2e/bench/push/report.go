package push

import (
	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

// report is the output of the benchmark.
type report struct {
	bench.Notes
	bench.Runs[result] // by workload
	settings           settings
	workloads          []workload
	contenders         []contender
}

func (rep *report) table() *bench.Table {
	return rep.Tabulate(columns, "workload, contender: median (min..max)")
}

// configuration returns what was compared.
func (rep *report) configuration() []string {
	lines := []string{
		"measured: from the first tree that does not only warm up to when the last one begins; every request carries " +
			"its tree in " + scripted.SessionHeader,
	}
	for i := range rep.workloads {
		lines = append(lines, rep.workloads[i].describe())
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].Name()+": "+rep.contenders[i].Describe())
	}
	return append(lines, rep.Notes...)
}
