package core

// This file is how the response to a request comes, and how the request ends.

// answerBegins is called once, with end when the response has no body.
func (pl *choice) answerBegins(end bool) {
	if pl.phase == phaseNew || pl.phase == phaseDone {
		return
	}
	headers := pl.serving.leasedHeaders()
	if isInformational(pl.response.status) { // the response is still to come
		pl.response.status = 0
		return
	}
	pl.response.complete = end
	if pl.phase == phaseListing || pl.phase == phaseReserving { // answered by the gateway: nothing is left to resume
		pl.decided(pl.abandonReservation())
	}
	if pl.region.followForwarded() {
		pl.SetNote(pl.debug.describe() + pl.wait.text())
	}
	if pl.phase == phaseLeased {
		pl.serving.answerBegins(headers, end, pl.routedTo)
	}
	pl.serving.readReport()
	pl.debug.setDebugHeaders()
	if pl.phase == phaseReading { // answered by the gateway, and never decided
		pl.abandonBody()
	}
}

// end is called once, whatever ended the request: completed, reset by either side, answered by a later filter, never
// sent upstream.
func (pl *choice) end() {
	pl.Body.Release()
	pl.gone()
	if pl.phase == phaseReading {
		pl.abandonBody()
	}
	if pl.phase == phaseListing || pl.phase == phaseReserving {
		pl.decided(pl.abandonReservation())
	}
	if pl.phase == phaseUncounted && pl.response.status == 0 {
		pl.region.forwardFailed() // unless its client has left
	}
	pl.serving.end(pl.routedTo)
}
