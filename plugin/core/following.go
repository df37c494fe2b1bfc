package core

import (
	"github.com/warmgate/warmgate/plugin/placement"
)

// This file is how a choice follows the answer to its request, to its end.

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
