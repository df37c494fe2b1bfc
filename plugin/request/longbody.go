package request

import (
	"bytes"
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
	// HoldBytes is how many bytes of a body are held and read at once. What is longer is read on, also if
	// max_inspect_bytes is more.
	HoldBytes = 256 << 10
	// partBytes is how much is read of a body in one call.
	partBytes = 64 << 10
	// maxPause is how long a body that is read on may pause, should body_timeout be longer, and maxReading is how long
	// it may take in all: a model server cannot begin before it has all of it.
	maxPause   = time.Second
	maxReading = 30 * time.Second
	// MaxKept bounds the bytes that a VM keeps of all bodies that are read on, MaxHeld those that the gateway holds of
	// them for the VM.
	MaxKept = 8 << 20
	MaxHeld = 128 << 20
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
	form             []byte // the beginning of a multipart one
	size             int    // bytes of it so far
	kept             int    // of Bodies.Kept
}

// readsOn reports whether a body that has not ended is read on: when enough of it has come to decide; and from its
// first part on where the gateway would not show the last one while it holds the others, or where the request is to go
// on after body_timeout although no more comes.
func (b *Body) readsOn(first, enough bool) bool {
	early := b.all.Stale || b.Plan.ModelOnly
	switch {
	case early && !first, !early && !enough, b.Received >= b.Plan.most:
		return false
	case b.traits.Length > b.Plan.most:
		b.unread = unreadLong
	case !b.all.hasRoom():
		b.unread = unreadRoom
	}
	return b.unread == ""
}

// newLong begins to read a body on. It is not inlined, for the size of the artifacts.
//
//go:noinline
func (b *Body) newLong() *longBody {
	return &longBody{LongBody: prompt.NewLongBody(min(b.Plan.atOnce, maxPrompt), b.all.prompts.secret(b.Plan.keys))}
}

// beginLong reads what is held of a body, and then its parts as they come.
func (b *Body) beginLong(size int) (keep host.Action, enough bool) {
	b.long, b.Alone = b.newLong(), true
	b.Received = 0
	return b.readOn(size, false)
}

// readOn reads the next part of a body.
func (b *Body) readOn(size int, end bool) (keep host.Action, enough bool) {
	all, l := b.all, b.long
	b.Received += size
	all.Held -= l.size
	b.readPart(l, size)
	all.Held += l.size
	all.Kept += l.Kept() - l.kept
	l.kept = l.Kept()
	switch {
	case end:
		return host.Proceed, true
	case b.Received >= b.Plan.most:
		b.unread = unreadLong
		return host.Proceed, true
	case !all.hasRoom():
		b.unread = unreadRoom
		return host.Proceed, true
	}
	b.awaitMore()
	return host.Stop, false
}

// awaitMore has the request wait for the next part of its body. Where the end of that matters, it may pause for as long
// after each part.
func (b *Body) awaitMore() {
	if all := b.all; b.Plan.end {
		until := min(all.Clock()+min(b.Plan.timeout, maxPause), b.BeganAt+maxReading)
		all.reading[b] = max(all.reading[b], until)
	}
}

// readPart reads what the callback shows of the body: size bytes.
func (b *Body) readPart(l *longBody, size int) {
	for from := 0; from < size; {
		part := b.from.RequestBody(from, min(size-from, partBytes))
		if len(part) == 0 {
			return
		}
		l.Read(part)
		from += len(part)
		l.size += len(part)
	}
}

// formBytes is how much of a multipart body is read for its model: clients put files behind it.
const formBytes = 64 << 10

// readForm reads the next part of a multipart body until its model has come. Each part comes alone, so that the request
// goes on after body_timeout although no more comes.
func (b *Body) readForm(size int, end bool) (keep host.Action, enough bool) {
	all, l := b.all, b.long
	if l == nil {
		l = &longBody{}
		b.long, b.Held, b.Alone = l, true, true
	}
	text := b.from.RequestBody(0, min(size, formBytes-len(l.form)))
	l.form = append(l.form, text...)
	b.Received += size
	l.size += size
	all.Held += size
	l.kept += len(text)
	all.Kept += len(text)
	complete := bytes.IndexByte(text, '\n') >= 0 && prompt.ModelInParts(l.form) != ""
	if end || complete || b.Received >= formBytes || !all.hasRoom() {
		return host.Proceed, true
	}
	b.awaitMore()
	return host.Stop, false
}

// TakeForm returns the beginning of a multipart body.
func (b *Body) TakeForm() (form []byte) {
	if l := b.long; l != nil {
		form, b.long = l.form, nil
	}
	return form
}

// hasRoom reports whether another body may be read on.
func (b *Bodies) hasRoom() bool { return b.Kept < MaxKept && b.Held < MaxHeld }
