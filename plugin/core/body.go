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
	long      *longBody     // how it is read on behind what is held, nil before and after
	several   bool          // it has come in several parts
	alone     bool          // the next part comes alone, so that the request may be resumed without it
	unread    string        // why it is not read on, "" for nothing known
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
func (s *Stream) needsOwnBody() bool { return s.needsMore() || s.readsFacts() }

// needsMore reports whether it decides this choice by more than facts about its model.
func (s *Stream) needsMore() bool {
	switch {
	case s.session.mayBeInBody(s, s.cfg), s.held.inBody && !s.traits.notJSON:
		return true
	case !s.computes():
		return false
	case s.cfg.Unit == lb.Tokens:
		return true
	case !s.cfg.ReadsModel():
		return false
	}
	cl := s.plugin.vm.clusters[s.scope]
	return cl != nil && cl.engines.HasAdapters()
}

// waitForBody holds the request until its body, or max_inspect_bytes of it, has come, or body_timeout is over. A longer
// one may be read on: see longBody.
func (s *Stream) waitForBody() Action {
	s.enter(phaseReading)
	s.facts.alone = !s.needsMore() && !s.needsBodyInside()
	s.HoldBody(s.readMost())
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
	case phaseListing, phaseReserving:
		s.body.received += size
		return s.bodyGrew()
	default:
		s.body.received += size
		if end {
			s.amendWork()
		}
		return Proceed
	}
	alone := s.body.long != nil || !s.body.held // no earlier part is held beside this one: see ReleaseHeaders
	a := s.readNext(size, end)
	if a == Proceed && alone && !end {
		s.ReleaseHeaders()
	}
	return a
}

// readNext reads more of a body that the request waits for.
func (s *Stream) readNext(size int, end bool) Action {
	switch {
	case s.traits.parts:
		return s.readParts(size, end)
	case s.body.long != nil:
		return s.readOn(size, end)
	}
	first := !s.body.held
	s.body.several = !first
	s.body.held, s.body.received = true, size
	switch enough := size >= min(s.inspectBytes(), holdBytes); {
	case end: // a part may be empty, so only the length of all shows what the gateway does
		b := s.plugin.vm.bodies
		b.stale = b.stale || s.body.several && size < s.traits.length
	case s.body.late:
	case s.readsOn(first, enough):
		return s.beginLong(size)
	case !enough:
		return s.awaitMore(Hold)
	}
	return s.inspect(size, end)
}

// requestTrailers is called when the body was followed by trailers.
func (s *Stream) requestTrailers() Action {
	s.body.arrived(s.plugin.vm.now(), true)
	switch s.phase {
	case phaseReading:
	case phaseListing, phaseReserving, phaseProbing:
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
	s.plugin.vm.bodies.stopReading(s)
	if s.traits.parts {
		if l := s.body.long; l != nil {
			s.readModel(l.parts)
			s.body.long = nil
		}
		return s.decide(size, end, s.readingOf(&seen{}))
	}
	var b readBody
	s.bodySoFar(&b, size, end)
	s.session.find(s, s.cfg, b.text, true)
	s.readHeld(b.text)
	late := s.body.late && !end && !s.facts.alone
	if !s.needsPrompt() {
		s.readModel(b.text)
		return s.decide(size, end, readingReason(nil, late))
	}
	b.read(s)
	b.parts.InPath(prompt.IsolatingPath(s.traits.path))
	if !b.ended {
		b.unread = s.unreadFor(&b, end)
	}
	if end {
		size = max(size, s.traits.length)
	}
	b.whole = end && b.isWhole(size)
	if s.cfg.Clusters.Endpoint != nil {
		kept := b
		kept.text = slices.Clone(b.text) // for the choice inside, which may come after this callback
		s.seen = seen{late: late, body: &kept}
	}
	err := b.err
	if err == nil {
		s.inspected(&b)
	} else if s.cfg.Unit != lb.Tokens {
		err = nil // it was read for the adapter, no more
	}
	return s.decide(size, end, readingReason(err, late))
}

// needsPrompt reports whether more of the body matters than which session it is of.
func (s *Stream) needsPrompt() bool {
	c := s.cfg
	if !s.computes() {
		return s.what == prompt.Quiet && c.Clusters.Endpoint != nil // for its model, inside
	}
	return c.Unit == lb.Tokens || c.ReadsModel() || c.Clusters.Endpoint != nil ||
		c.Scrapes(s.plugin.vm.kind) || c.Engines.ORCA
}

// inspected takes over what is known of a body that could be read.
func (s *Stream) inspected(b *readBody) {
	model := modelKey{
		model: xxhash.Sum64String(b.parts.ModelName(b.text)),
		class: s.traits.classID(s.cfg), tenant: s.traits.tenantID(s.cfg),
	}
	s.work = work{info: b.info, seen: len(b.text) + b.skipped, model: model}
	if b.whole && !b.info.Media && !b.info.Stateful && b.info.API != prompt.Unknown {
		s.work.text = b.info.TextBytes
	}
	if s.cfg.ReadsPrompt() && s.computes() {
		s.chainPrompt(b)
	}
	if s.cfg.Scrapes(s.plugin.vm.kind) || s.cfg.Engines.ORCA {
		s.metrics.model = b.parts.ModelName(b.text)
	}
}

// bodyTimeout is called when the body did not come in time, perhaps because the gateway is set to keep it from the
// plugin.
//
// Once a part of the body is held, only a callback for the next part may let the request continue: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (s *Stream) bodyTimeout() {
	delete(s.plugin.vm.bodies.reading, s)
	if s.body.long != nil {
		s.body.late = true
		if s.inspect(s.body.received, false) == Proceed {
			s.Resume()
		}
		return
	}
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
	if s.decide(0, false, readingReason(nil, !s.facts.alone)) == Proceed {
		s.Resume()
	}
}

// bodyTimeoutRecovered ends a timeout that panicked. There is no callback of the request to let it continue.
func (s *Stream) bodyTimeoutRecovered() {
	if !s.body.held || s.body.alone {
		defer s.Resume()
	}
	s.recovered()
}

// abandonBody ends the wait for the body: the client has left, or the gateway has answered, before it came.
func (s *Stream) abandonBody() {
	s.plugin.vm.bodies.stopReading(s)
	s.enter(phaseUncounted)
	s.decided(lb.ReasonBodyLate)
}
