package core

import (
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

// body is what has come of a request, and what it waits for.
type body struct {
	beganAt   time.Duration // when the request came
	lastPart  time.Duration // when the latest part of the request came
	endedAt   time.Duration // when all of the request had come, 0 before
	grantedAt time.Duration // when it was granted an endpoint for which it had to wait, 0 for one without a wait
	received  int           // bytes of the body so far
	held      bool          // some of the body is held
	late      bool          // body_timeout is over: the next part of the body decides
}

// arrived is called for each part of the request, with end for the last one.
func (b *body) arrived(now time.Duration, end bool) {
	b.lastPart = now
	if end && b.endedAt == 0 {
		b.endedAt = now
	}
}

// sentAt returns since when an endpoint could have had all of the request.
func (b *body) sentAt() time.Duration { return max(b.endedAt, b.grantedAt) }

// needsBody reports whether the body decides where the request is sent: how long it is, which adapter it is for, or
// which session it belongs to.
func (s *Stream) needsBody() bool { return s.needsOwnBody() || s.needsBodyInside() }

// needsOwnBody reports whether it decides this choice, and not one inside the chosen cluster.
func (s *Stream) needsOwnBody() bool {
	switch {
	case s.session.mayBeInBody(s, s.cfg), s.held.inBody && !s.traits.notJSON:
		return true
	case s.what == prompt.Idle:
		return false
	case s.cfg.Unit == lb.Tokens || s.readsFacts():
		return true
	case !s.cfg.ReadsModel():
		return false
	}
	cl := s.plugin.vm.clusters[s.scope]
	return cl != nil && cl.engines.HasAdapters()
}

// waitForBody holds the request until its body, or max_inspect_bytes of it, has come, or body_timeout is over.
func (s *Stream) waitForBody() Action {
	s.enter(phaseReading)
	s.HoldBody(s.inspectBytes())
	s.plugin.vm.bodies.reading[s] = s.plugin.vm.gw.Now() + s.cfg.BodyTimeout
	return Hold
}

// requestBody is called when more of the body has come: size bytes in all while it is held, else size more.
func (s *Stream) requestBody(size int, end bool) Action {
	s.body.arrived(s.plugin.vm.now(), end)
	switch s.phase {
	case phaseReading:
	case phaseProbing:
		return Stop
	case phaseCalling:
		return s.callBody(size, end)
	case phaseReserving:
		s.body.received += size
		return s.bodyGrew()
	default:
		s.body.received += size
		if end {
			s.amendWork()
		}
		return Proceed
	}
	first := !s.body.held
	s.body.held, s.body.received = true, size
	if !end && !s.body.late && size < s.inspectBytes() {
		return Hold
	}
	a := s.inspect(size, end)
	if a == Proceed && first && !end {
		s.ReleaseHeaders()
	}
	return a
}

// requestTrailers is called when the body was followed by trailers.
func (s *Stream) requestTrailers() Action {
	s.body.arrived(s.plugin.vm.now(), true)
	switch s.phase {
	case phaseReading:
	case phaseReserving, phaseProbing:
		return Stop
	case phaseCalling:
		return s.callBody(s.body.received, true)
	default:
		s.amendWork()
		return Proceed
	}
	return s.inspect(s.body.received, true)
}

// inspect decides by what has come of the body: size bytes.
func (s *Stream) inspect(size int, end bool) Action {
	delete(s.plugin.vm.bodies.reading, s)
	text := s.RequestBody(min(size, s.inspectBytes()))
	s.session.find(s, s.cfg, text, true)
	s.readHeld(text)
	if !s.needsPrompt() {
		s.readModel(text)
		return s.decide(size, end, readingReason(nil, s.body.late && !end))
	}
	// Before Envoy 1.33 the last frame of a held body is not shown: a body that is shorter than its content-length is
	// not malformed.
	whole := end && size <= s.inspectBytes() && len(text) >= s.traits.length
	info, parts, err := prompt.ReadAs(s.traits.pathShape(), text, whole)
	late := s.body.late && !end
	if end {
		size = max(size, s.traits.length)
	}
	whole = end && size <= len(text)
	if s.cfg.Clusters.Endpoint != nil {
		kept := slices.Clone(text) // for the choice inside, which may come after this callback
		s.seen = seen{late: late, body: &readBody{text: kept, info: info, parts: parts, whole: whole, err: err}}
	}
	if err == nil {
		s.inspected(text, &info, &parts, whole)
	} else if s.cfg.Unit != lb.Tokens {
		err = nil // it was read for the adapter, no more
	}
	return s.decide(size, end, readingReason(err, late))
}

// needsPrompt reports whether more of the body matters than which session it is of.
func (s *Stream) needsPrompt() bool {
	c := s.cfg
	if s.what == prompt.Idle {
		return false
	}
	return c.Unit == lb.Tokens || c.ReadsModel() || c.Clusters.Endpoint != nil ||
		c.Scrapes(s.plugin.vm.kind) || c.Engines.ORCA
}

// inspected takes over what is known of a body, all of which was seen or not.
func (s *Stream) inspected(text []byte, info *prompt.Info, parts *prompt.Parts, whole bool) {
	model := modelKey{
		model: xxhash.Sum64String(parts.ModelName(text)),
		class: s.traits.classID(s.cfg), tenant: s.traits.tenantID(s.cfg),
	}
	s.work = work{info: *info, seen: len(text), model: model}
	if whole && !info.Media && !info.Stateful && info.API != prompt.Unknown {
		s.work.text = info.TextBytes
	}
	if s.cfg.ReadsPrompt() {
		s.chainPrompt(text, info, parts, whole)
	}
	if s.cfg.Scrapes(s.plugin.vm.kind) || s.cfg.Engines.ORCA {
		s.metrics.model = parts.ModelName(text)
	}
}

// bodyTimeout is called when the body did not come in time, perhaps because the gateway is set to keep it from the
// plugin.
//
// Once a part of the body is held, only a callback for the next part may let the request continue: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (s *Stream) bodyTimeout() {
	delete(s.plugin.vm.bodies.reading, s)
	if s.phase == phaseCalling {
		s.callTimeout()
	}
	if s.phase != phaseReading {
		return
	}
	if s.body.held {
		s.body.late = true
		return
	}
	if s.decide(0, false, lb.ReasonBodyLate) == Proceed {
		s.Resume()
	}
}

// bodyTimeoutRecovered ends a timeout that panicked. There is no callback of the request to let it continue.
func (s *Stream) bodyTimeoutRecovered() {
	if !s.body.held {
		defer s.Resume()
	}
	s.recovered()
}

// abandonBody ends the wait for the body: the client has left, or the gateway has answered, before it came.
func (s *Stream) abandonBody() {
	delete(s.plugin.vm.bodies.reading, s)
	s.enter(phaseUncounted)
	s.decided(lb.ReasonBodyLate)
}
