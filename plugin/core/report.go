package core

import (
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/placement"
)

// This file is where what was measured of a request goes when it is over: statistics and the access log.

// report is called once for a request under a configuration, for the last choice of its row.
func report(pl *choice) {
	v, s, m := pl.plugin.VM, &pl.serving, &pl.plugin.VM.Measured
	form := pl.Config.Telemetry.Log
	if pl.Config.Policy == "" { // the plugin is off
		form = config.LogDecision
	}
	if form == config.LogDecision && !s.Measures {
		return
	}
	r := pl.know(m)
	if s.Measures {
		v.Stats.Measured(m)
		if s.ServesAsChosen() {
			v.Gains.Learn(pl.Cluster, m, pl.Lease.Load)
			noteModel(pl, m)
		}
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

// know sets m to what is known of the request by now, and returns what the access log has beside that.
func (pl *choice) know(m *measured.Request) placement.Record {
	r := pl.serving.Record(m)
	pl.addWaits(m)
	pl.name(m)
	placement.Bill(&pl.Placement, m)
	return r
}

// noteModel notes for which model a request was served, while endpoints differ in what they have.
func noteModel(pl *choice, m *measured.Request) {
	v := pl.plugin.VM
	if now := v.Clock(); m.Model != "" && pl.Cluster.Facts.Active(now) {
		pl.Cluster.Asked.Note(now, &pl.Lease.Reservation.Request, func() string { return v.Stats.ModelLabel(m.Model) })
	}
}
