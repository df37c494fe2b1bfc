package core

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
)

// This file is how a request waits for its body, and what comes of that.

// needsBody reports whether the body decides where the request is sent: how long it is, which adapter it is for, or
// which session it belongs to.
func (pl *choice) needsBody() bool { return pl.needsOwnBody() || pl.within.needsBodyInside() }

// needsOwnBody reports whether it decides this choice, and not one inside the chosen cluster.
func (pl *choice) needsOwnBody() bool { return pl.needsMore() || pl.facts.readsFacts() }

// needsMore reports whether it decides this choice by more than facts about its model.
func (pl *choice) needsMore() bool {
	switch {
	case pl.session.mayBeInBody(&pl.traits, pl.cfg), pl.held.inBody && !pl.traits.notJSON:
		return true
	case !pl.computes():
		return false
	case pl.cfg.Unit == lb.Tokens:
		return true
	case !pl.cfg.ReadsModel():
		return false
	}
	cl := pl.plugin.vm.clusters[pl.scope]
	return cl != nil && cl.engines.HasAdapters()
}

// waitForBody holds the request until its body, or max_inspect_bytes of it, has come, or body_timeout is over. A longer
// one may be read on: see longBody.
func (pl *choice) waitForBody() host.Action {
	pl.enter(phaseReading)
	pl.body.await(pl.planBody())
	return host.Hold
}

// planBody returns what is to be read of the body, for the choice inside a cluster, too.
func (pl *choice) planBody() bodyPlan {
	c, in := pl.cfg, pl.cfg.Clusters.Endpoint
	p := bodyPlan{
		atOnce: c.MaxInspectBytes, names: c.ReadsPrompt() || in != nil, timeout: c.BodyTimeout, keys: c,
		modelOnly: !pl.needsMore() && !pl.within.needsBodyInside(),
	}
	p.end = !pl.traits.parts && (c.ReadsPrompt() || c.ReadsModel() || pl.session.mayBeInBody(&pl.traits, c) ||
		pl.held.inBody && !pl.traits.notJSON || pl.facts.readsFacts() ||
		in != nil && (in.ReadsPrompt() || in.ReadsModel() || in.ReadsSession()))
	most := c.MaxScanBytes
	if in != nil {
		p.atOnce, p.keys = max(p.atOnce, in.MaxInspectBytes), in
		most = max(most, in.MaxScanBytes)
	}
	if p.most = p.atOnce; p.end {
		p.most = max(p.most, most)
	}
	return p
}

// bodyCame is called when more of the body has come: size bytes in all while it is held, else size more.
func (pl *choice) bodyCame(size int, end bool) host.Action {
	b := &pl.body
	b.arrived(pl.plugin.vm.Clock(), end)
	switch pl.phase {
	case phaseReading:
	case phaseListing, phaseReserving:
		pl.passed(size)
		return pl.wait.bodyGrew()
	default:
		pl.passed(size)
		if end {
			pl.amendWork()
		}
		return host.Proceed
	}
	alone := b.long != nil || !b.held // no earlier part is held beside this one: see ReleaseHeaders
	a, enough := b.read(size, end)
	if enough {
		a = pl.inspect(b.received, end)
	}
	if a == host.Proceed && alone && !end {
		pl.gateway.ReleaseHeaders()
	}
	return a
}

// passed counts a part of the body that nothing waits for: once for all of the row.
func (pl *choice) passed(size int) {
	if pl.outer == nil {
		pl.body.received += size
	}
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
	if !pl.prompt.needsPrompt() {
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

// inspected takes over what is known of a body that could be read.
func (pl *choice) inspected(b *readBody) {
	model := learned.Key{
		Model: xxhash.Sum64String(b.parts.ModelName(b.text)),
		Class: pl.traits.classID(pl.cfg), Tenant: pl.traits.tenantID(pl.cfg),
	}
	w := &pl.prompt.work
	*w = work{info: b.info, seen: len(b.text) + b.skipped, model: model}
	if b.whole && !b.info.Media && !b.info.Stateful && b.info.API != prompt.Unknown {
		w.text = b.info.TextBytes
	}
	if pl.cfg.ReadsPrompt() && pl.computes() {
		pl.prompt.chainPrompt(b)
	}
	if pl.cfg.Scrapes(pl.plugin.vm.Kind) || pl.cfg.Engines.ORCA {
		pl.metrics.model = b.parts.ModelName(b.text)
	}
}

func (s *Stream) gatewayContext() uint32 { return s.context }

// bodyTimeout is called when the body did not come in time, perhaps because the gateway is set to keep it from the
// plugin.
//
// Once a part of the body is held, only a callback for the next part may let the request continue: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (s *Stream) bodyTimeout() {
	b, pl := &s.body, s.first
	delete(b.all.reading, b)
	switch {
	case s.answer != nil:
		s.answer.Late()
	case b.long != nil:
		b.late = true
		pl.goOn(pl.inspect(b.received, false))
	case pl.phase != phaseReading:
	case b.held:
		b.late = true
	default:
		pl.goOn(pl.decide(0, false, readingReason(nil, !b.plan.modelOnly)))
	}
}

// bodyTimeoutRecovered ends a timeout that panicked. There is no callback of the request to let it continue.
func (s *Stream) bodyTimeoutRecovered() {
	if s.answer != nil {
		s.answer.Failed()
		return
	}
	if !s.body.held || s.body.alone {
		defer s.gateway.Resume()
	}
	s.first.recovered()
}

// abandonBody ends the wait for the body: the client has left, or the gateway has answered, before it came.
func (pl *choice) abandonBody() {
	pl.body.stopReading()
	pl.enter(phaseUncounted)
	pl.decided(lb.ReasonBodyLate)
}
