package core

// This file is where what was measured of a request goes when it is over: statistics and the access log.

// report is called once for a request under a configuration, on the last choice of its row.
func (pl *choice) report() {
	v := pl.plugin.VM
	m := &v.Measured
	r := pl.serving.Record(m)
	pl.name(m)
	pl.serving.Bill(m)
	v.Stats.Measured(m)
	if s := &pl.serving; s.ServesAsChosen() {
		v.Gains.Learn(pl.Cluster, m, pl.Lease.Load)
	}
	form := pl.Config.Telemetry.Log
	if pl.Config.Policy == "" { // the plugin is off
		return
	}
	if form.HasFields() {
		v.Fields = r.Fields(m.Fields(v.Fields[:0], true))
		pl.Gateway.LogFields(v.Fields)
	}
	if form.HasLine() && pl.note != "" {
		v.Line = r.AppendLine(append(v.Line[:0], pl.note...), m)
		pl.Gateway.SetNote(v.Line)
	}
}
