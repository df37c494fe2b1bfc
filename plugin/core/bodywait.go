package core

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/request"
)

// This file is how a request waits for its body, and what comes of that.

// bodyCame is called when more of the body has come: size bytes in all while it is held, else size more.
func (pl *choice) bodyCame(size int, end bool) host.Action {
	b := &pl.Body
	b.Arrived(pl.plugin.VM.Clock(), end)
	if peeksAt(pl, size) {
		pl.PeekModel(size)
	}
	switch pl.Phase {
	case placement.PhaseReading:
	case placement.PhaseListing, placement.PhaseReserving:
		return pl.act(pl.BodyGrew())
	default:
		if end {
			pl.AmendWork()
		}
		return host.Proceed
	}
	alone := b.IsLong() || !b.Held // no earlier part is held beside this one: see ReleaseHeaders
	a, enough := b.Read(size, end)
	if enough {
		a = pl.inspect(b.Received, end)
	}
	if a == host.Proceed && alone && !end {
		pl.Gateway.ReleaseHeaders()
	}
	return a
}

// peeksAt reports whether a part of the body, size bytes, is looked at for the name of its model, although nothing of
// it decides: what is measured has that name.
func peeksAt(pl *choice, size int) bool {
	return size > 0 && pl.Body.Received == size && pl.Phase != placement.PhaseReading && pl.inside == nil &&
		pl.Prompt.Model == "" && isMeasured(pl) && pl.Config.Telemetry.ReadAnswers && pl.MayNameModel()
}

// trailersCame is called when the body was followed by trailers.
func (pl *choice) trailersCame() host.Action {
	pl.Body.Arrived(pl.plugin.VM.Clock(), true)
	switch pl.Phase {
	case placement.PhaseReading:
	case placement.PhaseListing, placement.PhaseReserving:
		return host.Stop
	default:
		pl.AmendWork()
		return host.Proceed
	}
	return pl.inspect(pl.Body.Received, true)
}

// inspect decides by what has come of the body: size bytes.
func (pl *choice) inspect(size int, end bool) host.Action {
	b := &pl.Body
	b.StopReading()
	if pl.Traits.Multipart {
		pl.Facts.ReadModel(b.TakeForm())
		return pl.decide(size, end, pl.readingOf(&seen{}))
	}
	var r request.Content
	b.Take(&r, size, end)
	pl.Find(r.Text, true)
	pl.Kept.ReadBody(r.Text)
	late := b.Late && !end && !b.Plan.ModelOnly
	if !pl.NeedsPrompt() {
		pl.Facts.ReadModel(r.Text)
		return pl.decide(size, end, request.ReadingReason(nil, late))
	}
	if end {
		size = max(size, pl.Traits.Length)
	}
	b.ReadMembers(&r, size, end)
	if pl.Trial {
		pl.Noted.Read(&r)
	}
	if pl.Config.Clusters.Endpoint != nil {
		kept := r
		kept.Text = slices.Clone(r.Text) // for the choice inside, which may come after this callback
		pl.seen = seen{late: late, body: &kept}
	}
	err := r.Err
	if err == nil {
		pl.Inspected(&r)
	} else if pl.Config.Unit != lb.Tokens {
		err = nil // it was read for the adapter, no more
	}
	return pl.decide(size, end, request.ReadingReason(err, late))
}

// BodyTimeout is called when the body did not come in time, perhaps because the gateway is set to keep it from the
// plugin.
//
// Once a part of the body is held, only a callback for the next part may let the request continue: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (s *Stream) BodyTimeout() {
	b, pl := &s.Body, s.first
	b.Release()
	switch {
	case s.answer != nil:
		s.answer.Late()
	case b.IsLong():
		b.Late = true
		pl.goOn(pl.inspect(b.Received, false))
	case pl.Phase != placement.PhaseReading:
	case b.Held:
		b.Late = true
	default:
		pl.goOn(pl.decide(0, false, request.ReadingReason(nil, !b.Plan.ModelOnly)))
	}
}

// Recovered ends a timeout that panicked. There is no callback of the request to let it continue.
func (s *Stream) Recovered() {
	if s.answer != nil {
		s.answer.Failed()
		return
	}
	if !s.Body.Held || s.Body.Alone {
		defer s.Gateway.Resume()
	}
	s.first.Recovered()
}

// abandonBody ends the wait for the body: the client has left, or the gateway has answered, before it came.
func (pl *choice) abandonBody() {
	pl.Body.StopReading()
	pl.Enter(placement.PhaseUncounted)
	pl.decided(lb.ReasonBodyLate)
}
