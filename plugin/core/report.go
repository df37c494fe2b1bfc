package core

import (
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/vm"
)

// This file is where what was measured of a request goes when it is over: statistics and the access log.

// report is called once for a request under a configuration, with the last choice of its row and its note.
func report(v *vm.VM, s *placement.Serving, note string) {
	m := &v.Measured
	r := s.Record(m)
	s.Bill(m)
	v.Stats.Measured(m)
	if s.ServesAsChosen() {
		v.Gains.Learn(s.Of.Cluster, m, s.Of.Lease.Load)
	}
	if note == "" {
		return
	}
	if v.Line = r.Append(append(v.Line[:0], note...)); len(v.Line) > len(note) {
		s.Of.Gateway.SetNote(string(v.Line))
	}
}
