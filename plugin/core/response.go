package core

import (
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/answer"
)

// response is what has come of the response to a request.
type response struct {
	reached  bool          // an endpoint was tried: the response is not the gateway's alone
	status   int           // 0 before it
	begun    bool          // nothing of the prompt is left to compute: see hasBegun
	begunAt  time.Duration // when that was, 0 where it does not matter
	asked    time.Duration // the latest tick when all of the request was sent, 0 before
	answered time.Duration // that when it had begun, without a look at the clock
	dataAt   time.Duration // when the only event so far of an API that is not known came, 0 for none
	api      answer.API    // what the answer has to be in, by the path of the request
	lines    bool          // it comes by lines, by its headers
	streamed bool          // it has begun before its end: it is a stream
	bytes    int           // of the body so far
	ttft     time.Duration // from the plan to the first token, for prefix_cache
	complete bool          // all of it has passed
	encoded  bool          // it is compressed
	text     bool          // it is a text that is not compressed, and no stream
	parts    int64         // of the body that have passed
	reads    bool          // the parts to come are read
	unread   bool          // some were not
	drawn    drawn         // whether it is read to its end where only some are
	answer   *answer.Reader
	outcome  answer.Outcome // by its content, once it is over
	retry    []byte         // beginning of the body, while that may say when to try again
}

// responseHeaders is called once, with end when the response has no body.
func (s *Stream) responseHeaders(end bool) {
	if s.phase == phaseNew || s.phase == phaseDone {
		return
	}
	headers := s.leasedHeaders()
	if isInformational(s.response.status) { // the response is still to come
		s.response.status = 0
		return
	}
	s.response.complete = end
	if s.phase == phaseProbing {
		s.enter(phaseUncounted)
	}
	if s.phase == phaseCalling {
		s.callLeft()
	}
	if s.phase == phaseListing || s.phase == phaseReserving { // answered by the gateway: nothing is left to resume
		s.abandonReservation()
	}
	s.followForwarded()
	if s.phase == phaseLeased {
		s.followServed()
		s.restrict(headers)
		if s.phase == phaseLeased && s.response.status > 0 && s.response.status < 400 && // still leased: not misrouted
			!s.idle() {
			s.lease.trackResponse(true)
		}
		s.readAs(headers, end)
	}
	s.readReport()
	s.setDebugHeaders()
	if s.phase == phaseReading { // answered by the gateway, and never decided
		s.abandonBody()
	}
}

// leasedHeaders reads the headers of the response to a request that is counted, and takes over its status.
func (s *Stream) leasedHeaders() [][2]string {
	if s.phase != phaseLeased {
		return nil
	}
	headers := s.ResponseHeaders()
	for _, h := range headers {
		if h[0] == ":status" {
			s.response.status, _ = strconv.Atoi(h[1])
		}
	}
	return headers
}

// isInformational reports whether a status is one that is followed by the response itself, such as early hints.
func isInformational(status int) bool { return status >= 100 && status < 200 && status != 101 }

// responseBody is called for every part of the response's body: size bytes.
func (s *Stream) responseBody(size int, end bool) {
	r := &s.response
	r.complete = r.complete || end
	s.readRefusal(size)
	s.learnHeld(size)
	if size > 0 {
		s.readAnswer(size)
	}
	if r.begun || s.phase != phaseLeased {
		return
	}
	at, begun := s.hasBegun(end)
	if !begun {
		return
	}
	r.begun = true
	r.answered = s.plugin.vm.ticks.lastTick
	s.learnOutput()
	if s.cfg.AmongClusters() {
		r.begunAt = at
	}
	if !end && s.streams() {
		r.streamed = true
		s.firstToken(at)
	}
	r.reads = r.reads && (r.dataAt > 0 || s.readsToEnd())
}

// firstToken is called when the first token of a stream has come: what remains in flight is the output. An answer in
// one piece has no such moment.
func (s *Stream) firstToken(at time.Duration) {
	if a := s.response.answer; a == nil || !a.Vain() {
		s.measurePush(at, true)
	}
	if s.lease.tokens > s.work.output {
		s.lease.amend("", s.work.output)
	}
	if s.chain != nil {
		s.response.ttft = max(1, at-s.chain.planned) // 0 within one tick, but known
	}
}

// done is called once, whatever ended the request: completed, reset by either side, answered by a later filter, never
// sent upstream.
func (s *Stream) done() {
	v := s.plugin.vm
	delete(v.bodies.reading, s)
	delete(v.lists.held, s)
	if s.wait.attempt.open {
		s.cluster.retries.end(&s.wait.attempt)
	}
	s.requestGone()
	if s.phase == phaseProbing {
		s.enter(phaseUncounted)
	}
	if s.phase == phaseCalling {
		s.callLeft()
	}
	if s.phase == phaseReading {
		s.abandonBody()
	}
	if s.phase == phaseListing || s.phase == phaseReserving {
		s.abandonReservation()
	}
	if s.phase == phaseUncounted && s.response.status == 0 {
		s.forwardFailed() // unless its client has left
	}
	if s.phase == phaseLeased && s.response.status == 0 {
		served := s.servedBy()
		s.response.reached = served != ""
		s.misrouted(served)
	}
	if s.phase == phaseLeased {
		now := v.now()
		outcome := lb.Outcome{}
		s.learnUsage(now, &outcome)
		verdict := s.judged()
		s.learnCall(now, verdict)
		s.measureCluster(&outcome, verdict)
		if verdict == lb.Success {
			s.tenantAnswered(now)
			s.measure(now, &outcome)
			s.measurePush(now, false)
			s.expectMetrics(now)
		}
		s.answerEnded(now, verdict)
		s.endCharges()
		if s.losesPrompt(verdict) {
			s.lease.forgetPrompt(0) // before the release: who finds the request gone must not find its prompt
		}
		s.noteServed()
		s.release()
		s.completeOutcome(now, verdict, &outcome)
		s.policy.Observe(now, outcome)
	}
	s.enter(phaseDone)
}

// measure puts into the outcome what the request was counted for, and how long its answer took if its first part was
// not its end. Times are those of ticks, so only their averages mean something.
func (s *Stream) measure(now time.Duration, o *lb.Outcome) {
	l := &s.lease
	if s.chain == nil || l.addr != l.chosen || s.cfg.Shadow {
		return
	}
	o.CountedTokens = l.reservation.plan.AddedTokens(l.reservation.grant.Cached)
	if s.response.ttft > 0 {
		o.TTFT, o.Duration = s.response.ttft, now-s.chain.planned
	}
}

// measurePush has an answer show how many requests the endpoint runs without a queue: when it has begun, if it is
// streamed, and when it has ended.
func (s *Stream) measurePush(at time.Duration, begun bool) {
	l := &s.lease
	if s.cfg.Push != lb.Pending || !s.computes() || l.addr != l.chosen || s.cfg.Shadow || s.response.status >= 300 {
		return
	}
	s.cluster.limits.Observe(at, lb.Answer{
		Addr: l.addr, PlacedAt: s.placedAt(), Inflight: l.load,
		Begun: begun, Streamed: s.response.streamed && !begun, Bytes: s.response.bytes,
	})
}

// expectMetrics notes the answer: a page of metrics that never shows it stands still.
func (s *Stream) expectMetrics(now time.Duration) {
	l := &s.lease
	if s.cluster.metrics.neededAt == 0 || s.cfg.Shadow {
		return
	}
	if s.computes() && l.addr == l.chosen && s.response.status < 300 {
		s.cluster.engines.AddAnswer(now, l.addr, s.placedAt())
	}
}

const (
	// patientFor is how long an endpoint may keep a request waiting before it counts against it that the client leaves.
	patientFor = 5 * time.Second
	// stalledAfter is after which time without a part of the request its client has stalled. Times are those of ticks.
	stalledAfter = 2 * tickPeriod
)

// connectionFailures are what the gateway's details contain when it cannot connect to the endpoint.
var connectionFailures = [...]string{"connection_failure", "connection_timeout"}

// verdict classifies the end of a request for the health of the endpoint. The gateway's details of the response are
// only read when it is not plainly good.
func (r *response) verdict(now time.Duration, b *body, from GatewayStream) lb.Verdict {
	if !r.reached { // answered by a filter, or for want of an endpoint
		return lb.Neutral
	}
	if r.complete && r.status > 0 && r.status < 400 {
		return lb.Success
	}
	details := from.Details()
	switch {
	case details == "via_upstream" || details == "" && r.status >= 400:
		return statusVerdict(r.status)
	case strings.Contains(details, "overflow") || strings.Contains(details, "no_healthy_upstream"):
		return lb.Neutral // the gateway's own limits
	case containsAny(details, connectionFailures[:]...):
		return lb.Failure // whatever the request was
	case b.endedAt == 0 && now-b.lastPart < stalledAfter && strings.Contains(details, "upstream_reset"):
		return lb.Overload // it had not all of the request yet, but that was on its way
	case b.endedAt == 0:
		return lb.Neutral // the client has stalled, so that may be why
	case isTimeout(details):
		if r.status == 0 || r.status >= 500 { // as far as can be known: 500 and above may be the gateway's own
			return lb.TimedOut
		}
		return lb.Neutral // a long answer, or a slow client
	case strings.Contains(details, "upstream") && !strings.Contains(details, "downstream"):
		return lb.Failure
	case r.status == 0 && now-b.sentAt() >= patientFor:
		return lb.Overload // the client gave up waiting
	}
	return lb.Neutral
}

// isTimeout reports whether the gateway's details of a response mean that its time was over.
func isTimeout(details string) bool {
	for _, word := range [...]string{
		"response_timeout", "per_try", "stream_idle_timeout", "max_duration", "max_stream_duration",
	} {
		if strings.Contains(details, word) {
			return true
		}
	}
	return false
}

// statusVerdict judges by the status that the endpoint answered with.
func statusVerdict(status int) lb.Verdict {
	switch status {
	case 429, 503, 529:
		return lb.Overload
	case 408, 499, 501, 505:
		return lb.Neutral // the client was slow or left, or wants what no server of its kind has
	}
	switch {
	case status < 400:
		return lb.Success
	case status < 500:
		return lb.Rejected
	}
	return lb.Failure
}
