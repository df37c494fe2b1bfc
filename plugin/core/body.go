package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// body is what has come of a request, and what it waits for.
type body struct {
	from    host.GatewayStream
	context uint32 // the gateway's, of the request
	traits  *traits
	all     *bodies  // those of the VM
	user    bodyUser // who is told that it is late
	plan    bodyPlan

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

// bodyPlan is what is to be read of a body.
type bodyPlan struct {
	atOnce    int            // bytes: max_inspect_bytes
	most      int            // bytes: more than at once where its end matters
	end       bool           // what stands at its end matters, other than for its work alone
	names     bool           // so do names behind more values than are parsed
	modelOnly bool           // only its model is read: it is never held for longer than body_timeout
	timeout   time.Duration  // body_timeout
	keys      *config.Config // which has the secret of prompts' keys
}

// readBody is what was read of a body.
type readBody struct {
	text    []byte       // as much of it as was read, until the inner choice has taken what it needs
	info    prompt.Info  // what that contains
	parts   prompt.Parts // where
	whole   bool         // all of it is in text, or all but what no model reads
	long    bool         // text is what was kept of a longer body
	skipped int          // bytes of that which no model reads, and which were not kept
	ended   bool         // every name in it that keys of prompts depend on is known
	unread  string       // why not, "" if they are
	err     error        // why it cannot be read
}

// isLong reports whether it is read on, as its parts come.
func (b *body) isLong() bool { return b.long != nil }

// arrived is called for each part of the request, with end for the last one.
func (b *body) arrived(now time.Duration, end bool) {
	b.lastPart = now
	if end && b.endedAt == 0 {
		b.endedAt = now
	}
}

// await has the body come, by a plan: see read.
func (b *body) await(p bodyPlan) {
	b.plan = p
	b.from.HoldBody(p.most)
	b.hold(p.timeout)
}

// hold has the user told if the request is held for longer.
func (b *body) hold(most time.Duration) { b.all.reading[b] = b.all.GW.Now() + most }

// release ends that.
func (b *body) release() { delete(b.all.reading, b) }

// read reads more of a body that the request waits for: size bytes in all while it is held, else size more. Until that
// is enough to decide, it returns how the gateway keeps the request.
func (b *body) read(size int, end bool) (keep host.Action, enough bool) {
	switch {
	case b.traits.parts:
		return b.readForm(size, end)
	case b.long != nil:
		return b.readOn(size, end)
	}
	first := !b.held
	b.several = !first
	b.held, b.received = true, size
	switch much := size >= min(b.plan.atOnce, holdBytes); {
	case end: // a part may be empty, so only the length of all shows what the gateway does
		b.all.stale = b.all.stale || b.several && size < b.traits.length
	case b.late:
	case b.readsOn(first, much):
		return b.beginLong(size)
	case !much:
		b.awaitMore()
		return host.Hold, false
	}
	return host.Proceed, true
}

// stopReading ends the wait for the body, and frees what it takes.
func (b *body) stopReading() {
	b.release()
	if l := b.long; l != nil {
		b.all.kept -= l.kept
		b.all.held -= l.size
		l.kept, l.size = 0, 0
	}
}

// take sets what is known of the body, of which size bytes have come.
func (b *body) take(r *readBody, size int, end bool) {
	l := b.long
	switch {
	case l != nil:
		b.long = nil
	case size <= b.plan.atOnce || b.plan.most <= b.plan.atOnce:
		r.text = b.from.RequestBody(0, min(size, b.plan.atOnce))
		// Some gateways do not show the last part of a held body: one that is shorter than its content-length is not
		// malformed.
		hidden := len(r.text) < b.traits.length || b.hidesLast()
		r.whole = end && size <= b.plan.atOnce && !hidden
		return
	default:
		l = b.newLong()
		if b.readPart(l, min(size, b.plan.most)); size > b.plan.most {
			b.unread = unreadLong
		}
	}
	r.long, r.ended, r.skipped = true, l.Ended(), l.Skipped()
	r.text, r.whole = l.Body()
}

// readMembers reads the members of the body, of which size bytes have come.
func (b *body) readMembers(r *readBody, size int, end bool) {
	b.parse(r)
	r.parts.InPath(prompt.IsolatingPath(b.traits.path))
	if !r.ended {
		r.unread = b.whyUnread(end)
	}
	r.whole = end && (r.long && r.whole || !r.long && size <= len(r.text))
}

func (b *body) parse(r *readBody) {
	path := b.traits.pathShape()
	r.info, r.parts, r.err = prompt.ReadAs(path, r.text, r.whole)
	if r.long {
		return
	}
	if r.ended = r.whole && r.err == nil; !r.ended || !r.parts.Cut() {
		return
	}
	// It has too many values to parse: names may be behind them.
	r.ended = false
	if !b.plan.names {
		return
	}
	l := b.newLong()
	l.ManyValues()
	l.Read(r.text)
	if r.ended = l.Ended(); r.ended {
		var whole bool
		r.text, whole = l.Body()
		r.info, r.parts, r.err = prompt.ReadAs(path, r.text, whole)
	}
}

// hidesLast reports whether the gateway has not shown the last part of the body.
func (b *body) hidesLast() bool { return b.several && !b.alone && b.all.stale }

// whyUnread returns why the body was not read to its end, although all of it has come or not.
func (b *body) whyUnread(end bool) string {
	switch {
	case b.unread != "":
		return b.unread
	case end && b.hidesLast():
		return unreadHidden
	case end:
		return unreadValues
	case b.late:
		return unreadLate
	}
	return unreadLong
}

// readingReason returns the reason to count when an endpoint is chosen for a request whose body was read for its work,
// or could not be. late: more of it was waited for in vain.
func readingReason(err error, late bool) lb.Reason {
	switch {
	case errors.Is(err, prompt.ErrAmbiguous):
		return lb.ReasonBodyAmbiguous
	case err != nil:
		return lb.ReasonBodyMalformed
	case late:
		return lb.ReasonBodyLate
	}
	return lb.ReasonChosen
}
