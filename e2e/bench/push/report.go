package push

import (
	"fmt"

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

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateway share it",
		fmt.Sprintf("gateway: the shipped plain layout, %d workers, the same process for all contenders of a "+
			"workload, switched by configuration", s.Workers),
		fmt.Sprintf("%d rounds with seeds from %d; caches are emptied before each run; every request streams and "+
			"carries its tree in %s; TTFT counts from the moment the client sent; what is measured begins with the "+
			"first tree that does not only warm up, and ends when the last one begins", s.Rounds, s.Seed,
			scripted.SessionHeader),
	}
	for i := range rep.workloads {
		lines = append(lines, rep.workloads[i].describe())
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].Name()+": "+rep.contenders[i].Describe())
	}
	return append(lines, rep.Notes...)
}
