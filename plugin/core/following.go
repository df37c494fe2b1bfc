package core

// This file is how a choice follows the answer to its request, to its end.

// answerBegins is called once, with end when the response has no body.
func (pl *choice) answerBegins(end bool) {
	s := &pl.serving
	if pl.phase == phaseNew || pl.phase == phaseDone {
		return
	}
	headers := s.leasedHeaders()
	if isInformational(pl.response.Status) { // the response is still to come
		pl.response.Status = 0
		return
	}
	pl.response.Complete = end
	if pl.phase == phaseListing || pl.phase == phaseReserving { // answered by the gateway: nothing is left to resume
		pl.decided(pl.abandonReservation())
	}
	if pl.region.followForwarded() {
		pl.SetNote(pl.describe() + pl.wait.text())
	}
	if pl.phase == phaseLeased {
		s.followServed()
		pl.charge.restrict(headers)
		status := pl.response.Status
		if pl.phase == phaseLeased && status > 0 && status < 400 && !pl.Idle() { // still leased: not misrouted
			pl.lease.trackResponse(true)
		}
		s.readAs(headers, end)
	}
	s.readReport()
	pl.setDebugHeaders()
	if pl.phase == phaseReading { // answered by the gateway, and never decided
		pl.abandonBody()
	}
}

// end is called once, whatever ended the request: completed, reset by either side, answered by a later filter, never
// sent upstream.
func (pl *choice) end() {
	pl.Body.Release()
	pl.plugin.vm.lists.Left(&pl.Metrics.Waiter)
	if a := &pl.wait.attempt; a.open {
		pl.Cluster.Retries.End(a.id)
	}
	pl.Metrics.Gone(pl.Cluster, pl.lease.chosen)
	if pl.phase == phaseReading {
		pl.abandonBody()
	}
	if pl.phase == phaseListing || pl.phase == phaseReserving {
		pl.decided(pl.abandonReservation())
	}
	if pl.phase == phaseUncounted && pl.response.Status == 0 {
		pl.region.forwardFailed() // unless its client has left
	}
	pl.serving.end()
	pl.enter(phaseDone)
}
