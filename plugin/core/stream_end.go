package core

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// responseHeaders is called once, with end when the response has no body.
func (s *Stream) responseHeaders(end bool) {
	if s.phase == phaseNew || s.phase == phaseDone {
		return
	}
	s.complete = end
	if s.phase == phaseReserving { // answered by the gateway: there is nothing left to resume
		s.abandonReservation()
	}
	if s.phase == phaseLeased {
		s.status, _ = strconv.Atoi(s.ResponseHeader(":status"))
		s.followServed()
		s.trackResponse(s.status > 0 && s.status < 400)
		if !end {
			s.skipEncoded()
		}
	}
	s.readReport()
	s.setDebugHeaders()
	if s.phase == phaseHeld { // answered by the gateway, and never decided
		s.abandonBody()
	}
}

// followServed moves the lease to the endpoint that really serves: after a retry, or when the gateway routed natively.
//
// It has the prompt from now on, and the chosen one may not have it, so it is noted where it is. In shadow mode that
// makes what is known come true although the gateway chooses: the one that would have been chosen still has what it
// had.
//
// What the chosen endpoint did is not reported: it may have failed, or have been full and answered 503. So it loses
// weight, and is ejected only if that goes on for long. An address that no endpoint has says nothing: an endpoint
// with a host name, or with several addresses, may be reached under another one than is listed.
func (s *Stream) followServed() {
	served := s.ServedBy()
	s.reached = s.reached || served != ""
	if s.misrouted(served) || served == "" || served == s.addr || !s.listed(served) {
		return
	}
	v := s.plugin.vm
	now := v.now()
	had := 0
	if s.cfg.Shadow {
		had = s.reservation.grant.Cached
	}
	s.forgetPrompt(had)
	s.tokens = s.reservation.plan.Work(0)
	s.store.Amend(s.now(), s.id, served, s.tokens)
	if !s.cfg.Shadow {
		v.stats.count(statMoves, 1)
		moved := lb.Outcome{}
		s.completeOutcome(now, lb.Moved, &moved)
		s.policy.Observe(now, moved)
	}
	s.addr = served
	s.recordPrompt()
}

// listed says whether the address is one of the cluster's endpoints.
func (s *Stream) listed(addr string) bool {
	return slices.ContainsFunc(s.reservation.view.Endpoints, func(e lb.Endpoint) bool { return e.Addr == addr })
}

// responseBody is called for every part of the response's body: size bytes.
func (s *Stream) responseBody(size int, end bool) {
	s.complete = s.complete || end
	if s.readsUsage() && size > 0 {
		s.readUsage(size)
	}
	if s.firstBytes || s.phase != phaseLeased {
		return
	}
	s.firstBytes = true
	if s.streams && !end {
		// The prefill is done: what remains in flight is the output. An answer in one piece has no such moment.
		s.tokens = s.output
		now := s.now()
		if s.chain != nil {
			s.first = max(1, s.plugin.vm.now()-s.chain.planned) // 0 within one tick, but known
		}
		s.store.Amend(now, s.id, "", s.tokens)
	}
}

// done is called once, whatever ended the request: completed, reset by either side, answered by a later filter, never
// sent upstream.
func (s *Stream) done() {
	v := s.plugin.vm
	delete(v.bodies.waiting, s)
	s.requestGone()
	if s.phase == phaseHeld {
		s.abandonBody()
	}
	if s.phase == phaseReserving {
		s.abandonReservation()
	}
	if s.phase == phaseLeased && s.status == 0 {
		served := s.ServedBy()
		s.reached = served != ""
		s.misrouted(served)
	}
	if s.phase == phaseLeased {
		now := v.now()
		outcome := lb.Outcome{}
		s.learnUsage(now, &outcome)
		verdict := s.verdict(now)
		if verdict == lb.Success {
			s.measure(now, &outcome)
		}
		if verdict > lb.Overload || verdict == lb.Overload && s.status > 0 {
			s.forgetPrompt(0) // before the release: who sees that the request is gone does not find its prompt either
		}
		s.release()
		s.completeOutcome(now, verdict, &outcome)
		s.policy.Observe(now, outcome)
	}
	s.phase = phaseDone
}

// measure puts into the outcome what the request was counted for, and how long its answer took if its first part was not
// its end. Times are those of ticks, so only their averages mean something.
func (s *Stream) measure(now time.Duration, o *lb.Outcome) {
	if s.chain == nil || s.addr != s.chosen || s.cfg.Shadow {
		return
	}
	o.Work = s.reservation.plan.Work(s.reservation.grant.Cached)
	if s.first > 0 {
		o.TTFT, o.Duration = s.first, now-s.chain.planned
	}
}

// abandonBody ends the wait for the body: the client has left, or the gateway has answered, before it was there.
func (s *Stream) abandonBody() {
	delete(s.plugin.vm.bodies.waiting, s)
	s.phase = phasePassed
	s.decided(lb.ReasonBodyLate)
}

// abandonReservation ends the wait for the store: the request is over. Its lease, should the store grant it still, is given back.
func (s *Stream) abandonReservation() {
	s.release()
	s.decided(s.reservation.reason)
}

// patientFor is how long an endpoint may keep a request waiting before it is held against it that the client leaves.
const patientFor = 5 * time.Second

// stalledAfter is after which time without a part of the request its client has stalled. Times are those of ticks.
const stalledAfter = 2 * tickPeriod

// verdict classifies the end of the request for the health of the endpoint. The gateway's own word for it is only
// read when the response is not plainly good.
func (s *Stream) verdict(now time.Duration) lb.Verdict {
	if !s.reached { // answered by a filter, or for want of an endpoint
		return lb.Neutral
	}
	if s.complete && s.status > 0 && s.status < 400 {
		return lb.Success
	}
	details := s.Details()
	switch {
	case details == "via_upstream" || details == "" && s.status >= 400:
		return answered(s.status)
	case strings.Contains(details, "overflow") || strings.Contains(details, "no_healthy_upstream"):
		return lb.Neutral // the gateway's own limits
	case strings.Contains(details, "connection_failure") || strings.Contains(details, "connection_timeout"):
		return lb.Failure // whatever the request was
	case s.asked == 0 && now-s.part < stalledAfter && strings.Contains(details, "upstream_reset"):
		return lb.Overload // it had not all of the request yet, but that was on its way
	case s.asked == 0:
		return lb.Neutral // the client has stalled, so that may be why
	case isTimeOut(details):
		if s.status == 0 || s.status >= 500 { // as far as can be known: 500 and above may be the gateway's own
			return lb.TimedOut
		}
		return lb.Neutral // a long answer, or a slow client
	case strings.Contains(details, "upstream") && !strings.Contains(details, "downstream"):
		return lb.Failure
	case s.status == 0 && now-s.asked >= patientFor:
		return lb.Overload // the client gave up waiting
	}
	return lb.Neutral
}

// isTimeOut says whether the gateway's word for the end of a request is that its time was over.
func isTimeOut(details string) bool {
	for _, word := range [...]string{
		"response_timeout", "per_try", "stream_idle_timeout", "max_duration", "max_stream_duration",
	} {
		if strings.Contains(details, word) {
			return true
		}
	}
	return false
}

// answered judges by the status that the endpoint answered with.
func answered(status int) lb.Verdict {
	switch status {
	case 429, 503, 529:
		return lb.Overload
	case 408, 499, 501, 505:
		return lb.Neutral // the client was slow or left, or asked for what no server of its kind has
	}
	switch {
	case status < 400:
		return lb.Success
	case status < 500:
		return lb.Refused
	}
	return lb.Failure
}
