package core

import (
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/placement"
)

// This file is how a choice follows the answer to its request, to its end, and where what was measured of it goes then:
// statistics, the access log and its span.

// answerBegins is called once, with end when the response has no body.
func (pl *choice) answerBegins(end bool) {
	s := &pl.serving
	if pl.Phase == placement.PhaseNew || pl.Phase == placement.PhaseDone {
		return
	}
	s.Measures = pl.inside == nil && isMeasured(pl)
	headers := s.Headers()
	if placement.IsInformational(pl.Response.Status) { // the response is still to come
		pl.Response.Status = 0
		return
	}
	pl.Response.Complete = end
	// answered by the gateway: nothing is left to resume
	if pl.Phase == placement.PhaseListing || pl.Phase == placement.PhaseReserving {
		pl.decided(pl.AbandonReservation())
	}
	if pl.region.Follow() {
		pl.setNote()
	}
	if pl.Phase == placement.PhaseLeased {
		s.Begin(headers, end)
	} else if s.Measures {
		s.ReadAs(headers, end)
	}
	s.ReadReport()
	pl.setDebugHeaders()
	if pl.Phase == placement.PhaseReading { // answered by the gateway, and never decided
		pl.abandonBody()
	}
}

// end is called once, whatever ended the request: completed, reset by either side, answered by a later filter, never
// sent upstream.
func (pl *choice) end() {
	pl.Body.Release()
	pl.Gone()
	if pl.Phase == placement.PhaseReading {
		pl.abandonBody()
	}
	if pl.Phase == placement.PhaseListing || pl.Phase == placement.PhaseReserving {
		pl.decided(pl.AbandonReservation())
	}
	if pl.Phase == placement.PhaseUncounted && pl.Response.Status == 0 {
		pl.region.Failed() // unless its client has left
	}
	pl.serving.Measures = pl.inside == nil && isMeasured(pl)
	pl.serving.End()
	pl.showing.end()
	if pl.inside == nil && pl.Config != nil {
		pl.report()
	}
}

// isMeasured reports whether the request is measured.
func isMeasured(pl *choice) bool {
	return pl.Config != nil && pl.Config.Telemetry.Enabled && pl.Body.BeganAt > 0 && !pl.Trial
}

// report is called once for a request under a configuration, for the last choice of its row.
func (pl *choice) report() {
	v, s, m := pl.plugin.VM, &pl.serving, &pl.plugin.VM.Measured
	form := pl.Config.Telemetry.Log
	if pl.Config.Policy == "" { // the plugin is off
		form = config.LogDecision
	}
	if form == config.LogDecision && !s.Measures {
		return
	}
	r := s.Record(m)
	for in := pl; in.outer != nil; in = in.outer {
		if !in.isAdopted() { // else it has taken over how long the other one has waited
			in.outer.serving.AddWait(m)
		}
	}
	name(m, pl)
	s.Bill(m)
	if s.Measures {
		v.Stats.Measured(m)
		if s.ServesAsChosen() {
			v.Gains.Learn(pl.Cluster, m, pl.Lease.Load)
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

// tells reports whether the span of the request is told of it.
func tells(pl *choice) bool { return pl.Config != nil && pl.Config.Telemetry.Spans && !pl.Trial }

// showFields shows what is known of the request by now.
func (pl *choice) showFields() {
	v := pl.plugin.VM
	m := &v.Measured
	pl.serving.Record(m)
	name(m, pl)
	pl.serving.Bill(m)
	v.Fields = m.Fields(v.Fields[:0], pl.told == toldAll)
	pl.Gateway.SetFields(v.Fields)
}

// name sets what was asked for, and why the request went where it did.
func name(m *measured.Request, pl *choice) {
	m.Operation = operations.of(pl.Traits.Path)
	if pl.settled {
		m.Reason = pl.reason.String()
	}
}
