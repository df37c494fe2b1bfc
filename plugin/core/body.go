package core

import (
	"math"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/stats"
)

// body is what has come of a request, and what it waits for.
type body struct {
	beganAt   time.Duration // when the request came
	lastPart  time.Duration // when the latest part of the request came
	endedAt   time.Duration // when all of the request had come, 0 before
	received  int           // bytes of the body so far
	held      bool          // some of the body is held
	late      bool          // body_timeout is over: the next part of the body decides
	long      *longBody     // how it is read on behind what is held, nil before and after
	several   bool          // it has come in several parts
	alone     bool          // the next part comes alone, so that the request may be resumed without it
	unread    string        // why it is not read on, "" for nothing known
	modelOnly bool          // nothing else is read of it: it is never held for longer than body_timeout
}

// arrived is called for each part of the request, with end for the last one.
func (b *body) arrived(now time.Duration, end bool) {
	b.lastPart = now
	if end && b.endedAt == 0 {
		b.endedAt = now
	}
}

// promptUse is what is read of a request for its choice: its prompt, and how much work that is.
type promptUse struct {
	pl    *choice
	chain *promptChain // for prefix_cache, nil where the prompt does not matter
	work  work         // with unit: tokens
}

// needsBody reports whether the body decides where the request is sent: how long it is, which adapter it is for, or
// which session it belongs to.
func (u *promptUse) needsBody() bool { return u.needsOwnBody() || u.pl.within.needsBodyInside() }

// needsOwnBody reports whether it decides this choice, and not one inside the chosen cluster.
func (u *promptUse) needsOwnBody() bool { return u.needsMore() || u.pl.facts.readsFacts() }

// needsMore reports whether it decides this choice by more than facts about its model.
func (u *promptUse) needsMore() bool {
	pl := u.pl
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
	return cl != nil && cl.Engines.HasAdapters()
}

// waitForBody holds the request until its body, or max_inspect_bytes of it, has come, or body_timeout is over. A longer
// one may be read on: see longBody.
func (s *Stream) waitForBody() host.Action {
	pl := s.first
	pl.enter(phaseReading)
	s.body.modelOnly = !pl.prompt.needsMore() && !pl.within.needsBodyInside()
	s.gateway.HoldBody(s.readMost())
	s.plugin.vm.bodies.reading[s] = s.plugin.vm.GW.Now() + pl.cfg.BodyTimeout
	return host.Hold
}

// bodyCame is called when more of the body has come: size bytes in all while it is held, else size more.
func (u *promptUse) bodyCame(size int, end bool) host.Action {
	pl := u.pl
	pl.body.arrived(pl.plugin.vm.Clock(), end)
	switch pl.phase {
	case phaseReading:
	case phaseListing, phaseReserving:
		u.passed(size)
		return pl.wait.bodyGrew()
	default:
		u.passed(size)
		if end {
			u.amendWork()
		}
		return host.Proceed
	}
	alone := pl.body.long != nil || !pl.body.held // no earlier part is held beside this one: see ReleaseHeaders
	a := pl.stream.readNext(size, end)
	if a == host.Proceed && alone && !end {
		pl.gateway.ReleaseHeaders()
	}
	return a
}

// passed counts a part of the body that nothing waits for: once for all of the row.
func (u *promptUse) passed(size int) {
	if u.pl.outer == nil {
		u.pl.body.received += size
	}
}

// readNext reads more of a body that the request waits for.
func (s *Stream) readNext(size int, end bool) host.Action {
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
		return s.awaitMore(host.Hold)
	}
	return s.inspect(size, end)
}

// trailersCame is called when the body was followed by trailers.
func (u *promptUse) trailersCame() host.Action {
	pl := u.pl
	pl.body.arrived(pl.plugin.vm.Clock(), true)
	switch pl.phase {
	case phaseReading:
	case phaseListing, phaseReserving:
		return host.Stop
	default:
		u.amendWork()
		return host.Proceed
	}
	return pl.stream.inspect(pl.body.received, true)
}

// inspect decides by what has come of the body: size bytes.
func (s *Stream) inspect(size int, end bool) host.Action {
	pl := s.first
	s.plugin.vm.bodies.stopReading(s)
	if s.traits.parts {
		if l := s.body.long; l != nil {
			pl.facts.readModel(l.parts)
			s.body.long = nil
		}
		return pl.decide(size, end, pl.readingOf(&seen{}))
	}
	var b readBody
	s.bodySoFar(&b, size, end)
	pl.session.find(pl.gateway, &pl.traits, pl.cfg, b.text, true)
	pl.held.readBody(b.text)
	late := s.body.late && !end && !s.body.modelOnly
	if !pl.prompt.needsPrompt() {
		pl.facts.readModel(b.text)
		return pl.decide(size, end, readingReason(nil, late))
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
	if pl.cfg.Clusters.Endpoint != nil {
		kept := b
		kept.text = slices.Clone(b.text) // for the choice inside, which may come after this callback
		pl.seen = seen{late: late, body: &kept}
	}
	err := b.err
	if err == nil {
		pl.prompt.inspected(&b)
	} else if pl.cfg.Unit != lb.Tokens {
		err = nil // it was read for the adapter, no more
	}
	return pl.decide(size, end, readingReason(err, late))
}

// needsPrompt reports whether more of the body matters than which session it is of.
func (u *promptUse) needsPrompt() bool {
	pl := u.pl
	c := pl.cfg
	if !pl.computes() {
		return pl.what == prompt.Quiet && c.Clusters.Endpoint != nil // for its model, inside
	}
	return c.Unit == lb.Tokens || c.ReadsModel() || c.Clusters.Endpoint != nil ||
		c.Scrapes(pl.plugin.vm.Kind) || c.Engines.ORCA
}

// inspected takes over what is known of a body that could be read.
func (u *promptUse) inspected(b *readBody) {
	pl := u.pl
	model := learned.Key{
		Model: xxhash.Sum64String(b.parts.ModelName(b.text)),
		Class: pl.traits.classID(pl.cfg), Tenant: pl.traits.tenantID(pl.cfg),
	}
	u.work = work{info: b.info, seen: len(b.text) + b.skipped, model: model}
	if b.whole && !b.info.Media && !b.info.Stateful && b.info.API != prompt.Unknown {
		u.work.text = b.info.TextBytes
	}
	if pl.cfg.ReadsPrompt() && pl.computes() {
		u.chainPrompt(b)
	}
	if pl.cfg.Scrapes(pl.plugin.vm.Kind) || pl.cfg.Engines.ORCA {
		pl.metrics.model = b.parts.ModelName(b.text)
	}
}

func (s *Stream) gatewayContext() uint32 { return s.context }

func (s *Stream) bytesCome() int { return s.body.received }

// bodyTimeout is called when the body did not come in time, perhaps because the gateway is set to keep it from the
// plugin.
//
// Once a part of the body is held, only a callback for the next part may let the request continue: Envoy, resumed from
// outside, would send what it holds and then, on a route with retries, send it again with the next part.
func (s *Stream) bodyTimeout() {
	delete(s.plugin.vm.bodies.reading, s)
	if s.answer != nil {
		s.answer.Late()
		return
	}
	if s.body.long != nil {
		s.body.late = true
		s.first.goOn(s.inspect(s.body.received, false))
		return
	}
	if s.first.phase != phaseReading {
		return
	}
	if s.body.held {
		s.body.late = true
		return
	}
	s.first.goOn(s.first.decide(0, false, readingReason(nil, !s.body.modelOnly)))
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
func (s *Stream) abandonBody() {
	s.plugin.vm.bodies.stopReading(s)
	s.first.enter(phaseUncounted)
	s.first.decided(lb.ReasonBodyLate)
}

// chainPrompt cuts the prompt of the body into blocks. The route, and the tenant if there is a header for it, are part
// of every key. A prompt that the server puts more in front of than was sent is never seen as a whole. A body that was
// not read to its end has no blocks: what isolates its prompt from others may stand there.
func (u *promptUse) chainPrompt(b *readBody) {
	pl := u.pl
	chainer, tenant := pl.plugin.vm.prompts.chainer(pl.cfg), ""
	if pl.cfg.Prefix.TenantHeader != "" {
		tenant = pl.traits.header(pl.cfg.Prefix.TenantHeader)
	}
	now, key := pl.plugin.vm.Clock(), u.work.model
	first := pl.plugin.vm.prompts.firsts.Of(now, learned.ModelID{Cluster: pl.scope, Model: key.Model})
	var mediaBytes []int
	var bytesPerToken float64
	if b.info.Media {
		key.Cluster, key.Guess = pl.scope, clusters.GuessOf(pl.cfg)
		mediaBytes, bytesPerToken = pl.plugin.vm.prompts.models.MediaBytes(key)
	}
	skipped := first.Skipped(now)
	chainer.Expect(skipped, mediaBytes)
	blocks, length := chainer.Chain(b.text, &b.parts, pl.scope, pl.gateway.Route(), tenant)
	changed := first.Observe(chainer.First())
	if n, bytes, sizes := chainer.Media(); n > 0 && bytesPerToken > 0 {
		u.work.media = learned.Media{Count: n, Tokens: float64(bytes) / bytesPerToken, Sizes: slices.Clone(sizes)}
	}
	if !b.ended {
		pl.plugin.vm.Stats.Count(statname.With(stats.Unread, "cause", b.unread), 1)
		blocks = nil
	}
	if pl.cfg.Prefix.TenantHeader != "" { // requests without the header are one tenant's
		chainer.Claim(blocks, tenant)
	}
	u.chain = &promptChain{
		blocks: slices.Clone(blocks), length: length, planned: now,
		shape: pl.traits.shapeOr(b.info.API), uncached: b.info.BypassCache, whole: b.whole && !b.info.Stateful,
		model: b.parts.ModelName(b.text), first: first, skipped: skipped && changed,
	}
}

// estimateWork estimates how much work the request is likely to be: size bytes of its body have come, all of it or not.
func (u *promptUse) estimateWork(r *lb.Request, size int, ended bool) {
	pl := u.pl
	w := &u.work
	w.model.Cluster, w.model.Guess, w.open = pl.scope, clusters.GuessOf(pl.cfg), !ended
	w.typical = pl.plugin.vm.prompts.models.Typical(w.model, w.info.MaxTokens)
	w.sampled = pl.cluster.Samples.Take(w.info.MaxTokens)
	if p := u.chain; p != nil {
		r.Blocks, r.PromptBytes, r.BypassCache = p.blocks, p.length+w.unseen(size), p.uncached
	}
	r.PromptTokens, r.OutputTokens = w.estimate(pl.cfg, size)
	w.streamed = w.info.Stream
}

// assumeTypical counts a request of which nothing is read as a typical one, for other configurations of its cluster
// that count tokens.
func (u *promptUse) assumeTypical(r *lb.Request) {
	pl := u.pl
	typical := pl.plugin.vm.prompts.models.Typical(learned.Key{Cluster: pl.scope, Guess: pl.cluster.Guess}, 0)
	r.PromptTokens, r.OutputTokens = int64(typical.Prompt), int64(math.Round(typical.Output))
}

func (u *promptUse) gatewayContext() uint32 { return u.pl.context }

func (u *promptUse) bytesCome() int { return u.pl.body.received }

// bodyTimeoutRecovered implements bodyUser.
func (u *promptUse) bodyTimeoutRecovered() { u.pl.recovered() }

// bodyTimeout is called when nothing more of the body has come for stallTime: a client that sends a part and no more
// does not make the endpoint look busy for as long as its connection lasts. Its weight comes back with the end of the
// body.
func (u *promptUse) bodyTimeout() {
	pl := u.pl
	delete(pl.plugin.vm.bodies.partial, u)
	if pl.phase != phaseLeased || u.prefillDone() {
		return
	}
	plan := &pl.lease.reservation.plan
	plan.Tokens, plan.Prefix.Tokens = openTokens, 0
	pl.lease.amend("", openTokens)
}

// amendWork is called when the end of the body has come. A lease that was granted before it counts for what has come
// from now on, if that is much more or less. A prefill that is done does not count any more.
func (u *promptUse) amendWork() {
	pl := u.pl
	delete(pl.plugin.vm.bodies.partial, u)
	pl.response.asked = pl.plugin.vm.ticks.lastTick
	w := &u.work
	if !w.open || pl.phase != phaseLeased || u.prefillDone() {
		return
	}
	w.open = false
	size := max(pl.body.received, pl.traits.length)
	promptTokens, outputTokens := w.estimate(pl.cfg, size)
	plan, cached := &pl.lease.reservation.plan, 0
	plan.Tokens = promptTokens + outputTokens
	if p := u.chain; p != nil {
		plan.Prefix.Bytes = p.length + w.unseen(size)
		if !p.uncached {
			plan.Prefix.Tokens = promptTokens
		}
	}
	if pl.lease.addr == pl.lease.chosen {
		cached = pl.lease.reservation.grant.Cached
	}
	pl.lease.estimatedAgain(plan.Tokens)
	tokens, before := plan.AddedTokens(cached), pl.lease.tokens
	if 4*max(tokens-before, before-tokens) > before {
		pl.lease.amend("", tokens)
	}
}

// prefillDone reports whether the prefill is known to be done: only the output is in flight.
func (u *promptUse) prefillDone() bool { return u.pl.response.streamed }
