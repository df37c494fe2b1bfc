package core

// This file is where what was measured of a request goes when it is over: statistics and the access log.

// report is called once for a request under a configuration, for the last choice of its row.
func (pl *choice) report() {
	v, s, m := pl.plugin.VM, &pl.serving, &pl.plugin.VM.Measured
	r := s.Record(m)
	s.Bill(m)
	for in := pl; in.outer != nil; in = in.outer {
		if !in.isAdopted() { // else it has taken over how long the other one has waited
			in.outer.AddWait(m)
		}
	}
	if s.Measures {
		v.Stats.Measured(m)
	}
	if pl.note == "" {
		return
	}
	if v.Line = r.Append(append(v.Line[:0], pl.note...)); len(v.Line) > len(pl.note) {
		s.Of.Gateway.SetNote(string(v.Line))
	}
}
