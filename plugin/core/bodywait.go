package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// This file is how a request waits for its body, and what comes of that.

// bodyCame is called when more of the body has come: size bytes in all while it is held, else size more.
func (pl *choice) bodyCame(size int, end bool) host.Action {
	b := &pl.body
	b.arrived(pl.plugin.vm.Clock(), end)
	switch pl.phase {
	case phaseReading:
	case phaseListing, phaseReserving:
		return pl.act(pl.bodyGrew())
	default:
		if end {
			pl.amendWork()
		}
		return host.Proceed
	}
	alone := b.isLong() || !b.held // no earlier part is held beside this one: see ReleaseHeaders
	a, enough := b.read(size, end)
	if enough {
		a = pl.inspect(b.received, end)
	}
	if a == host.Proceed && alone && !end {
		pl.gateway.ReleaseHeaders()
	}
	return a
}

// trailersCame is called when the body was followed by trailers.
func (pl *choice) trailersCame() host.Action {
	pl.body.arrived(pl.plugin.vm.Clock(), true)
	switch pl.phase {
	case phaseReading:
	case phaseListing, phaseReserving:
		return host.Stop
	default:
		pl.amendWork()
		return host.Proceed
	}
	return pl.inspect(pl.body.received, true)
}

// inspect decides by what has come of the body: size bytes.
func (pl *choice) inspect(size int, end bool) host.Action {
	b := &pl.body
	b.stopReading()
	if pl.traits.parts {
		pl.facts.readModel(b.takeForm())
		return pl.decide(size, end, pl.readingOf(&seen{}))
	}
	var r readBody
	b.take(&r, size, end)
	pl.session.find(pl.gateway, &pl.traits, pl.cfg, r.text, true)
	pl.held.readBody(r.text)
	late := b.late && !end && !b.plan.modelOnly
	if !pl.needsPrompt() {
		pl.facts.readModel(r.text)
		return pl.decide(size, end, readingReason(nil, late))
	}
	if end {
		size = max(size, pl.traits.length)
	}
	b.readMembers(&r, size, end)
	if pl.cfg.Clusters.Endpoint != nil {
		kept := r
		kept.text = slices.Clone(r.text) // for the choice inside, which may come after this callback
		pl.seen = seen{late: late, body: &kept}
	}
	err := r.err
	if err == nil {
		pl.inspected(&r)
	} else if pl.cfg.Unit != lb.Tokens {
		err = nil // it was read for the adapter, no more
	}
	return pl.decide(size, end, readingReason(err, late))
}

// BodyTimeout is called when the body did not come in time, perhaps because the gateway is set to keep it from the
// plugin.
//
// Once a part of the body is held, only a callback for the next part may let the request continue: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (s *Stream) BodyTimeout() {
	b, pl := &s.body, s.first
	b.release()
	switch {
	case s.answer != nil:
		s.answer.Late()
	case b.isLong():
		b.late = true
		pl.goOn(pl.inspect(b.received, false))
	case pl.phase != phaseReading:
	case b.held:
		b.late = true
	default:
		pl.goOn(pl.decide(0, false, readingReason(nil, !b.plan.modelOnly)))
	}
}

// Recovered ends a timeout that panicked. There is no callback of the request to let it continue.
func (s *Stream) Recovered() {
	if s.answer != nil {
		s.answer.Failed()
		return
	}
	if !s.body.held || s.body.alone {
		defer s.gateway.Resume()
	}
	s.first.Recovered()
}

// abandonBody ends the wait for the body: the client has left, or the gateway has answered, before it came.
func (pl *choice) abandonBody() {
	pl.body.stopReading()
	pl.enter(phaseUncounted)
	pl.decided(lb.ReasonBodyLate)
}
