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
	beganAt  time.Duration // when the request came
	lastPart time.Duration // when the latest part of the request came
	endedAt  time.Duration // when all of the request had come, 0 before
	received int           // bytes of the body so far
	held     bool          // some of the body is held
	late     bool          // body_timeout is over: the next part of the body decides
	long     *longBody     // how it is read on behind what is held, nil before and after
	several  bool          // it has come in several parts
	alone    bool          // the next part comes alone, so that the request may be resumed without it
	unread   string        // why it is not read on, "" for nothing known
}

// arrived is called for each part of the request, with end for the last one.
func (b *body) arrived(now time.Duration, end bool) {
	b.lastPart = now
	if end && b.endedAt == 0 {
		b.endedAt = now
	}
}

// needsBody reports whether the body decides where the request is sent: how long it is, which adapter it is for, or
// which session it belongs to.
func (pl *placement) needsBody() bool { return pl.needsOwnBody() || pl.needsBodyInside() }

// needsOwnBody reports whether it decides this choice, and not one inside the chosen cluster.
func (pl *placement) needsOwnBody() bool { return pl.needsMore() || pl.readsFacts() }

// needsMore reports whether it decides this choice by more than facts about its model.
func (pl *placement) needsMore() bool {
	switch {
	case pl.session.mayBeInBody(pl, pl.cfg), pl.held.inBody && !pl.traits.notJSON:
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
func (pl *placement) waitForBody() Action {
	pl.enter(phaseReading)
	pl.facts.alone = !pl.needsMore() && !pl.needsBodyInside()
	pl.HoldBody(pl.readMost())
	pl.plugin.vm.bodies.reading[pl] = pl.plugin.vm.gw.Now() + pl.cfg.BodyTimeout
	return Hold
}

// requestBody is called when more of the body has come: size bytes in all while it is held, else size more.
func (pl *placement) requestBody(size int, end bool) Action {
	pl.body.arrived(pl.plugin.vm.now(), end)
	switch pl.phase {
	case phaseReading:
	case phaseListing, phaseReserving:
		pl.passed(size)
		return pl.bodyGrew()
	default:
		pl.passed(size)
		if end {
			pl.amendWork()
		}
		return Proceed
	}
	alone := pl.body.long != nil || !pl.body.held // no earlier part is held beside this one: see ReleaseHeaders
	a := pl.readNext(size, end)
	if a == Proceed && alone && !end {
		pl.ReleaseHeaders()
	}
	return a
}

// passed counts a part of the body that nothing waits for: once for all of the row.
func (pl *placement) passed(size int) {
	if pl.outer == nil {
		pl.body.received += size
	}
}

// readNext reads more of a body that the request waits for.
func (pl *placement) readNext(size int, end bool) Action {
	switch {
	case pl.traits.parts:
		return pl.readParts(size, end)
	case pl.body.long != nil:
		return pl.readOn(size, end)
	}
	first := !pl.body.held
	pl.body.several = !first
	pl.body.held, pl.body.received = true, size
	switch enough := size >= min(pl.inspectBytes(), holdBytes); {
	case end: // a part may be empty, so only the length of all shows what the gateway does
		b := pl.plugin.vm.bodies
		b.stale = b.stale || pl.body.several && size < pl.traits.length
	case pl.body.late:
	case pl.readsOn(first, enough):
		return pl.beginLong(size)
	case !enough:
		return pl.awaitMore(Hold)
	}
	return pl.inspect(size, end)
}

// requestTrailers is called when the body was followed by trailers.
func (pl *placement) requestTrailers() Action {
	pl.body.arrived(pl.plugin.vm.now(), true)
	switch pl.phase {
	case phaseReading:
	case phaseListing, phaseReserving:
		return Stop
	default:
		pl.amendWork()
		return Proceed
	}
	return pl.inspect(pl.body.received, true)
}

// inspect decides by what has come of the body: size bytes.
func (pl *placement) inspect(size int, end bool) Action {
	pl.plugin.vm.bodies.stopReading(pl)
	if pl.traits.parts {
		if l := pl.body.long; l != nil {
			pl.readModel(l.parts)
			pl.body.long = nil
		}
		return pl.decide(size, end, pl.readingOf(&seen{}))
	}
	var b readBody
	pl.bodySoFar(&b, size, end)
	pl.session.find(pl, pl.cfg, b.text, true)
	pl.readHeld(b.text)
	late := pl.body.late && !end && !pl.facts.alone
	if !pl.needsPrompt() {
		pl.readModel(b.text)
		return pl.decide(size, end, readingReason(nil, late))
	}
	b.read(pl)
	b.parts.InPath(prompt.IsolatingPath(pl.traits.path))
	if !b.ended {
		b.unread = pl.unreadFor(&b, end)
	}
	if end {
		size = max(size, pl.traits.length)
	}
	b.whole = end && b.isWhole(size)
	if pl.cfg.Clusters.Endpoint != nil {
		kept := b
		kept.text = slices.Clone(b.text) // for the choice inside, which may come after this callback
		pl.seen = seen{late: late, body: &kept}
	}
	err := b.err
	if err == nil {
		pl.inspected(&b)
	} else if pl.cfg.Unit != lb.Tokens {
		err = nil // it was read for the adapter, no more
	}
	return pl.decide(size, end, readingReason(err, late))
}

// needsPrompt reports whether more of the body matters than which session it is of.
func (pl *placement) needsPrompt() bool {
	c := pl.cfg
	if !pl.computes() {
		return pl.what == prompt.Quiet && c.Clusters.Endpoint != nil // for its model, inside
	}
	return c.Unit == lb.Tokens || c.ReadsModel() || c.Clusters.Endpoint != nil ||
		c.Scrapes(pl.plugin.vm.kind) || c.Engines.ORCA
}

// inspected takes over what is known of a body that could be read.
func (pl *placement) inspected(b *readBody) {
	model := modelKey{
		model: xxhash.Sum64String(b.parts.ModelName(b.text)),
		class: pl.traits.classID(pl.cfg), tenant: pl.traits.tenantID(pl.cfg),
	}
	pl.work = work{info: b.info, seen: len(b.text) + b.skipped, model: model}
	if b.whole && !b.info.Media && !b.info.Stateful && b.info.API != prompt.Unknown {
		pl.work.text = b.info.TextBytes
	}
	if pl.cfg.ReadsPrompt() && pl.computes() {
		pl.chainPrompt(b)
	}
	if pl.cfg.Scrapes(pl.plugin.vm.kind) || pl.cfg.Engines.ORCA {
		pl.metrics.model = b.parts.ModelName(b.text)
	}
}

// bodyTimeout is called when the body did not come in time, perhaps because the gateway is set to keep it from the
// plugin.
//
// Once a part of the body is held, only a callback for the next part may let the request continue: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (pl *placement) bodyTimeout() {
	delete(pl.plugin.vm.bodies.reading, pl)
	if pl.answer != nil {
		pl.answer.late()
		return
	}
	if pl.body.long != nil {
		pl.body.late = true
		pl.goOn(pl.inspect(pl.body.received, false))
		return
	}
	if pl.phase != phaseReading {
		return
	}
	if pl.body.held {
		pl.body.late = true
		return
	}
	pl.goOn(pl.decide(0, false, readingReason(nil, !pl.facts.alone)))
}

// bodyTimeoutRecovered ends a timeout that panicked. There is no callback of the request to let it continue.
func (pl *placement) bodyTimeoutRecovered() {
	if pl.answer != nil {
		pl.answer.failed()
		return
	}
	if !pl.body.held || pl.body.alone {
		defer pl.Resume()
	}
	pl.recovered()
}

// abandonBody ends the wait for the body: the client has left, or the gateway has answered, before it came.
func (pl *placement) abandonBody() {
	pl.plugin.vm.bodies.stopReading(pl)
	pl.enter(phaseUncounted)
	pl.decided(lb.ReasonBodyLate)
}
