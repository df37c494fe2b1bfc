package request

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// Body is what has come of a request, and what it waits for.
type Body struct {
	from    host.GatewayStream
	context uint32 // the gateway's, of the request
	traits  *Traits
	all     *Bodies  // those of the VM
	user    BodyUser // who is told that it is late
	Plan    BodyPlan

	BeganAt  time.Duration // when the request came
	LastPart time.Duration // when the latest part of the request came
	EndedAt  time.Duration // when all of the request had come, 0 before
	Received int           // bytes of the body so far
	Held     bool          // some of the body is held
	Late     bool          // body_timeout is over: the next part of the body decides
	long     *longBody     // how it is read on behind what is held, nil before and after
	several  bool          // it has come in several parts
	Alone    bool          // the next part comes alone, so that the request may be resumed without it
	unread   string        // why it is not read on, "" for nothing known
}

// BodyPlan is what is to be read of a body. It is made once, when the wait for the body begins: what becomes known of
// models in the meantime changes it no more.
type BodyPlan struct {
	atOnce    int            // bytes: max_inspect_bytes
	most      int            // bytes: more than at once where its end matters
	end       bool           // what stands at its end matters, other than for its work alone
	names     bool           // so do names behind more values than are parsed
	ModelOnly bool           // only its model is read: if nothing more comes within body_timeout, it goes on without
	timeout   time.Duration  // body_timeout
	keys      *config.Config // which has the secret of prompts' keys
}

// Content is what was read of a body.
type Content struct {
	Text    []byte       // as much of it as was read, until the inner choice has taken what it needs
	info    prompt.Info  // what that contains
	parts   prompt.Parts // where
	whole   bool         // all of it is in Text, or all but what no model reads
	long    bool         // Text is what was kept of a longer body
	skipped int          // bytes of that which no model reads, and which were not kept
	ended   bool         // every name in it that keys of prompts depend on is known
	unread  string       // why not, "" if they are
	Err     error        // why it cannot be read
}

// IsLong reports whether it is read on, as its parts come.
func (b *Body) IsLong() bool { return b.long != nil }

// Arrived is called for each part of the request, with end for the last one.
func (b *Body) Arrived(now time.Duration, end bool) {
	b.LastPart = now
	if end && b.EndedAt == 0 {
		b.EndedAt = now
	}
}

// Await has the gateway hold the body, and what comes of it read by the plan: see Read.
func (b *Body) Await(p BodyPlan) {
	b.Plan = p
	b.from.HoldBody(p.most)
	b.Hold(p.timeout)
}

// Hold has BodyUser.BodyTimeout called if the request is held for longer, counted from now.
func (b *Body) Hold(most time.Duration) { b.all.reading[b] = b.all.GW.Now() + most }

// Release ends what Hold has begun.
func (b *Body) Release() { delete(b.all.reading, b) }

// Read reads more of a body that the request waits for: size bytes in all while it is held, else size more. Until that
// is enough to decide, it returns how the gateway keeps the request.
func (b *Body) Read(size int, end bool) (keep host.Action, enough bool) {
	switch {
	case b.traits.Multipart:
		return b.readForm(size, end)
	case b.long != nil:
		return b.readOn(size, end)
	}
	first := !b.Held
	b.several = !first
	b.Held, b.Received = true, size
	switch much := size >= min(b.Plan.atOnce, HoldBytes); {
	case end: // a part may be empty, so only the length of all shows what the gateway does
		b.all.Stale = b.all.Stale || b.several && size < b.traits.Length
	case b.Late:
	case b.readsOn(first, much):
		return b.beginLong(size)
	case !much:
		b.awaitMore()
		return host.Hold, false
	}
	return host.Proceed, true
}

// StopReading ends the wait for the body, and frees what it takes.
func (b *Body) StopReading() {
	b.Release()
	if l := b.long; l != nil {
		b.all.Kept -= l.kept
		b.all.Held -= l.size
		l.kept, l.size = 0, 0
	}
}

// Take sets the text of the body, of which size bytes have come, and how much of it that is. Unless the body is long,
// the text is lent until the gateway is called again.
func (b *Body) Take(r *Content, size int, end bool) {
	l := b.long
	switch {
	case l != nil:
		b.long = nil
	case size <= b.Plan.atOnce || b.Plan.most <= b.Plan.atOnce:
		r.Text = b.from.RequestBody(0, min(size, b.Plan.atOnce))
		// Some gateways do not show the last part of a held body: one that is shorter than its content-length is not
		// malformed.
		hidden := len(r.Text) < b.traits.Length || b.hidesLast()
		r.whole = end && size <= b.Plan.atOnce && !hidden
		return
	default:
		l = b.newLong()
		if b.readPart(l, min(size, b.Plan.most)); size > b.Plan.most {
			b.unread = unreadLong
		}
	}
	r.long, r.ended, r.skipped = true, l.Ended(), l.Skipped()
	r.Text, r.whole = l.Body()
}

// ReadMembers reads the members of the body in the text that Take has set; size is that of the body, in bytes.
func (b *Body) ReadMembers(r *Content, size int, end bool) {
	b.parse(r)
	r.parts.InPath(prompt.IsolatingPath(b.traits.Path))
	if !r.ended {
		r.unread = b.whyUnread(end)
	}
	r.whole = end && (r.long && r.whole || !r.long && size <= len(r.Text))
}

func (b *Body) parse(r *Content) {
	path := b.traits.pathShape()
	r.info, r.parts, r.Err = prompt.ReadAs(path, r.Text, r.whole)
	if r.long {
		return
	}
	if r.ended = r.whole && r.Err == nil; !r.ended || !r.parts.Cut() {
		return
	}
	// It has too many values to parse: names may be behind them.
	r.ended = false
	if !b.Plan.names {
		return
	}
	l := b.newLong()
	l.ManyValues()
	l.Read(r.Text)
	if r.ended = l.Ended(); r.ended {
		var whole bool
		r.Text, whole = l.Body()
		r.info, r.parts, r.Err = prompt.ReadAs(path, r.Text, whole)
	}
}

// hidesLast reports whether the gateway has not shown the last part of the body.
func (b *Body) hidesLast() bool { return b.several && !b.Alone && b.all.Stale }

// whyUnread returns why the body was not read to its end, although all of it has come or not.
func (b *Body) whyUnread(end bool) string {
	switch {
	case b.unread != "":
		return b.unread
	case end && b.hidesLast():
		return unreadHidden
	case b.Received > b.Plan.most:
		return unreadLong
	case end:
		return unreadValues
	case b.Late:
		return unreadLate
	}
	return unreadLong
}

// ReadingReason returns the reason to count when an endpoint is chosen for a request whose body was read for its work,
// or could not be. late: more of it was waited for in vain.
func ReadingReason(err error, late bool) lb.Reason {
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
