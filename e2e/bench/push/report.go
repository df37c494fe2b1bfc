package main

import (
	"fmt"
	"slices"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/scripted"
)

// report is the output of the benchmark.
type report struct {
	settings   settings
	notes      []string
	workloads  []workload
	contenders []contender
	results    [][][]result // by workload, then by contender, then by round
}

func (rep *report) table() *bench.Table {
	t := columns.Table("workload, contender: median (min..max)")
	for w := range rep.workloads {
		for c := range rep.contenders {
			t.Add(columns.Row(rep.results[w][c], rep.workloads[w].name+", "+rep.contenders[c].name)...)
		}
	}
	return t
}

// configuration returns what was compared, in full.
func (rep *report) configuration() []string {
	s := rep.settings
	lines := []string{
		"machine: " + bench.Machine() + "; clients, servers and gateway share it",
		fmt.Sprintf("gateway: the shipped plain layout, %d workers, the same process for all contenders of a "+
			"workload, switched by configuration", s.workers),
		fmt.Sprintf("%d rounds with seeds from %d; caches are emptied before each run; every request streams and "+
			"carries its tree in %s; TTFT counts from the moment the client sent; what is measured begins with the "+
			"first tree that does not only warm up, and ends when the last one begins", s.rounds, s.seed,
			scripted.SessionHeader),
	}
	for i := range rep.workloads {
		lines = append(lines, rep.workloads[i].describe())
	}
	for i := range rep.contenders {
		lines = append(lines, rep.contenders[i].name+": "+rep.contenders[i].describe())
	}
	return append(lines, rep.notes...)
}

// rounds returns what a contender did with a workload, or nothing if either was not played.
func (rep *report) rounds(load, contenderName string) []result {
	w := slices.IndexFunc(rep.workloads, func(w workload) bool { return w.name == load })
	c := slices.IndexFunc(rep.contenders, func(c contender) bool { return c.name == contenderName })
	if w < 0 || c < 0 {
		return nil
	}
	return rep.results[w][c]
}

// errors counts the requests of all runs that failed.
func (rep *report) errors() int {
	n := 0
	for _, byContender := range rep.results {
		for _, rounds := range byContender {
			for i := range rounds {
				n += rounds[i].Failed
			}
		}
	}
	return n
}
