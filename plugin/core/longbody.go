package core

import (
	"time"

	"github.com/warmgate/warmgate/lb/prompt"
	"github.com/warmgate/warmgate/plugin/host"
)

// A body may be longer than what is read of it at once, and what isolates prompts from each other may stand at its end.
// So it is read on as its parts come, up to max_scan_bytes. The gateway holds the parts, and pushes back at a client
// whose body it has no room for; of what they contain a VM keeps what prompt.LongBody does.
//
// A body that is not read to its end matches no prompt: another model or salt may be behind what was read.

const (
	// holdBytes is how much of a body is held and read at once. What is longer is read on, also if max_inspect_bytes is
	// more.
	holdBytes = 256 << 10
	// partBytes is how much is read of a body in one call.
	partBytes = 64 << 10
	// maxPause is how long a body that is read on may pause, should body_timeout be longer, and maxReading is how long
	// it may take in all: a model server cannot begin before it has all of it.
	maxPause   = time.Second
	maxReading = 30 * time.Second
	// maxKept bounds what a VM keeps of all bodies that are read on, maxHeld what the gateway holds of them for the VM.
	maxKept = 8 << 20
	maxHeld = 128 << 20
	// maxPrompt is how much is kept of the prompt in a body that is read on, where max_inspect_bytes is more: no chain
	// covers more than that.
	maxPrompt = 1 << 20
)

// Why a body was not read to its end, or is not known well enough to match.
const (
	unreadLong   = "too_long"    // longer than max_scan_bytes
	unreadLate   = "late"        // it has paused for too long
	unreadRoom   = "no_room"     // too many bodies are read on
	unreadHidden = "not_shown"   // the gateway does not show the last part of what it holds
	unreadValues = "too_complex" // too many values, or a name of more than 64 KiB
)

// longBody is how a body is read on.
type longBody struct {
	*prompt.LongBody        // nil for a multipart one
	parts            []byte // the beginning of a multipart one
	size             int    // bytes of it so far
	kept             int    // of bodies.kept
}

// readMost returns how much of a body is read: more than max_inspect_bytes where its end matters.
func (s *Stream) readMost() int {
	most := s.inspectBytes()
	if s.wantsEnd() {
		most = max(most, s.first.cfg.MaxScanBytes)
		if c := s.first.cfg.Clusters.Endpoint; c != nil {
			most = max(most, c.MaxScanBytes)
		}
	}
	return most
}

// wantsEnd reports whether what stands at the end of a body matters: other than for its work alone.
func (s *Stream) wantsEnd() bool {
	pl := s.first
	c, in := pl.cfg, pl.cfg.Clusters.Endpoint
	return !s.traits.parts && (c.ReadsPrompt() || c.ReadsModel() || pl.session.mayBeInBody(&s.traits, c) ||
		pl.held.inBody && !s.traits.notJSON || pl.facts.readsFacts() ||
		in != nil && (in.ReadsPrompt() || in.ReadsModel() || in.ReadsSession()))
}

// readsOn reports whether a body that has not ended is read on: when enough of it has come to decide; and from its
// first part on where the gateway would not show the last one while it holds the others, or where the request is to go
// on after body_timeout although no more comes.
func (s *Stream) readsOn(first, enough bool) bool {
	b, most := s.plugin.vm.bodies, s.readMost()
	early := b.stale || s.body.modelOnly
	switch {
	case early && !first, !early && !enough, s.body.received >= most:
		return false
	case s.traits.length > most:
		s.body.unread = unreadLong
	case !b.hasRoom():
		s.body.unread = unreadRoom
	}
	return s.body.unread == ""
}

// hasRoom reports whether another body may be read on.
func (b *bodies) hasRoom() bool { return b.kept < maxKept && b.held < maxHeld }

// newLong begins to read a body on. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (s *Stream) newLong() *longBody {
	c := s.first.cfg
	if in := c.Clusters.Endpoint; in != nil {
		c = in
	}
	return &longBody{LongBody: prompt.NewLongBody(min(s.inspectBytes(), maxPrompt), s.plugin.vm.prompts.secret(c))}
}

// beginLong reads what is held of a body, and then its parts as they come.
func (s *Stream) beginLong(size int) host.Action {
	s.body.long, s.body.alone = s.newLong(), true
	s.body.received = 0
	return s.readOn(size, false)
}

// readOn reads the next part of a body.
func (s *Stream) readOn(size int, end bool) host.Action {
	b, l := s.plugin.vm.bodies, s.body.long
	s.body.received += size
	b.held -= l.size
	s.readPart(l, size)
	b.held += l.size
	b.kept += l.Kept() - l.kept
	l.kept = l.Kept()
	switch {
	case end:
		return s.inspect(s.body.received, true)
	case s.body.received >= s.readMost():
		s.body.unread = unreadLong
		return s.inspect(s.body.received, false)
	case !b.hasRoom():
		s.body.unread = unreadRoom
		return s.inspect(s.body.received, false)
	}
	return s.awaitMore(host.Stop)
}

// awaitMore has the request wait for the next part of its body. Where the end of that matters, it may pause for as long
// after each part.
func (s *Stream) awaitMore(a host.Action) host.Action {
	if b := s.plugin.vm.bodies; s.wantsEnd() {
		pause := min(s.first.cfg.BodyTimeout, maxPause)
		b.reading[s] = max(b.reading[s], min(b.Clock()+pause, s.body.beganAt+maxReading))
	}
	return a
}

// readPart reads what the callback shows of the body: size bytes.
func (s *Stream) readPart(l *longBody, size int) {
	for from := 0; from < size; {
		part := s.gateway.RequestBody(from, min(size-from, partBytes))
		if len(part) == 0 {
			return
		}
		l.Read(part)
		from += len(part)
		l.size += len(part)
	}
}

// stopReading ends the wait for the body, and frees what it takes.
func (b *bodies) stopReading(s *Stream) {
	delete(b.reading, s)
	if l := s.body.long; l != nil {
		b.kept -= l.kept
		b.held -= l.size
		l.kept, l.size = 0, 0
	}
}

// bodySoFar sets what is known of the body, of which size bytes have come.
func (s *Stream) bodySoFar(b *readBody, size int, end bool) {
	l, most := s.body.long, s.inspectBytes()
	switch {
	case l != nil:
		s.body.long = nil
	case size <= most || s.readMost() <= most:
		text := s.gateway.RequestBody(0, min(size, most))
		// Some gateways do not show the last part of a held body: one that is shorter than its content-length is not
		// malformed.
		hidden := len(text) < s.traits.length || s.hidesLast()
		b.text, b.whole = text, end && size <= most && !hidden
		return
	default:
		l = s.newLong()
		if s.readPart(l, min(size, s.readMost())); size > s.readMost() {
			s.body.unread = unreadLong
		}
	}
	b.long, b.ended, b.skipped = true, l.Ended(), l.Skipped()
	b.text, b.whole = l.Body()
}

// read reads the members of the body of a request.
func (b *readBody) read(s *Stream) {
	path := s.traits.pathShape()
	b.info, b.parts, b.err = prompt.ReadAs(path, b.text, b.whole)
	if b.long {
		return
	}
	if b.ended = b.whole && b.err == nil; !b.ended || !b.parts.Cut() {
		return
	}
	// It has too many values to parse: names may be behind them.
	b.ended = false
	if c := s.first.cfg; !c.ReadsPrompt() && c.Clusters.Endpoint == nil {
		return
	}
	l := s.newLong()
	l.ManyValues()
	l.Read(b.text)
	if b.ended = l.Ended(); b.ended {
		var whole bool
		b.text, whole = l.Body()
		b.info, b.parts, b.err = prompt.ReadAs(path, b.text, whole)
	}
}

// hidesLast reports whether the gateway has not shown the last part of the body.
func (s *Stream) hidesLast() bool {
	return s.body.several && !s.body.alone && s.plugin.vm.bodies.stale
}

// unreadFor returns why the body was not read to its end, although all of it has come or not.
func (s *Stream) unreadFor(b *readBody, end bool) string {
	switch {
	case s.body.unread != "":
		return s.body.unread
	case end && s.hidesLast():
		return unreadHidden
	case end:
		return unreadValues
	case s.body.late:
		return unreadLate
	}
	return unreadLong
}
