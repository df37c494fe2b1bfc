package core

import (
	"github.com/warmgate/warmgate/lb"
)

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
		pl.SetNote(pl.debug.describe() + pl.wait.text())
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
	pl.debug.setDebugHeaders()
	if pl.phase == phaseReading { // answered by the gateway, and never decided
		pl.abandonBody()
	}
}

// end is called once, whatever ended the request: completed, reset by either side, answered by a later filter, never
// sent upstream.
func (pl *choice) end() {
	v := pl.plugin.vm
	pl.Body.Release()
	v.lists.Left(&pl.Metrics.Waiter)
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
	if pl.phase == phaseLeased && pl.response.Status == 0 {
		served := pl.server()
		pl.response.Reached = served != ""
		pl.serving.misrouted(served)
	}
	if pl.phase == phaseLeased {
		now := v.Clock()
		outcome := lb.Outcome{}
		pl.serving.learnUsage(now, &outcome)
		verdict := pl.judge.judged()
		pl.judge.learnCall(now, verdict)
		pl.judge.measureCluster(&outcome, verdict)
		if verdict == lb.Success {
			pl.wait.answered(now)
			pl.serving.measure(now, &outcome)
			pl.serving.measurePush(now, false)
			pl.serving.expectMetrics(now)
		}
		pl.wait.answerEnded(now, verdict)
		pl.charge.endCharges()
		if pl.State.LosesPrompt(verdict, pl.lease.reservation.grant.Cached, pl.response.Status) {
			pl.lease.forgetPrompt(0) // before the release: who finds the request gone must not find its prompt
		}
		pl.wait.noteServed()
		pl.release()
		pl.judge.completeOutcome(now, verdict, &outcome)
		pl.policy.Observe(now, outcome)
	}
	pl.enter(phaseDone)
}
