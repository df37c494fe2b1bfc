package answer

import "bytes"

// Outcome is how an answer has ended, by its content.
type Outcome uint8

// The outcomes. A stream is not held to have an end that is not known for its API.
const (
	Complete   Outcome = iota // or nothing is known that contradicts it
	Refused                   // an error that the request is to blame for
	Overloaded                // an error that says that the server has no room
	Failed                    // any other error
	Aborted                   // the engine has given up
	Unfinished                // the stream has ended without what ends one in its API
	Empty                     // it has ended without output, a reason for that, or usage, or is no answer at all
)

// OutcomeNames are the names of outcomes in statistics.
var OutcomeNames = [...]string{
	Complete: "complete", Refused: "refused", Overloaded: "overloaded", Failed: "error", Aborted: "aborted",
	Unfinished: "unfinished", Empty: "empty",
}

// Begun reports whether the answer has shown output, or that none will come: nothing of the prompt is left to compute.
// What counts as output is text, reasoning, a tool call, audio or log probabilities; not the role of a message, a name,
// or an event that announces others.
func (r *Reader) Begun() bool { return r.begun }

// Data returns how many events have come that may be output, because the API is not known. It stays as it is once the
// answer has begun.
func (r *Reader) Data() int { return r.data }

// Streams reports whether the answer comes as events, lines of JSON, or a list of answers as Gemini's.
func (r *Reader) Streams() bool {
	return r.form == formEvents || r.form == formValue && r.seen.candidates && r.seen.list
}

// Settle has the answer count as one that has begun: its user has found that.
func (r *Reader) Settle() { r.begun = true }

// Expect has the reader know that an answer to the request has to be in an API that is known: what is not, is none.
func (r *Reader) Expect() { r.expected = true }

// IsOther reports whether the answer is in no format that is read.
func (r *Reader) IsOther() bool { return r.form == formText || r.form == formOther }

// HasOutput reports whether the answer has shown output.
func (r *Reader) HasOutput() bool { return r.seen.output }

// Terminated reports whether the answer had the event that ends every stream of its API.
func (r *Reader) Terminated() bool { return r.seen.terminated }

// Vain reports whether the answer has shown that it was not computed: by an error, because the engine has given up, or
// by its end alone.
func (r *Reader) Vain() bool {
	e := &r.seen
	return e.fault.found || e.aborted || e.terminated && !e.output && !e.finished
}

// Outcome returns how the answer has ended; complete: regularly; whole: all of it was read, at least the end of each
// part. It is for the end: what it reads of the last events does not count for the above.
func (r *Reader) Outcome(complete, whole bool) Outcome {
	known := r.readLast(complete && whole)
	e := &r.seen
	switch {
	case e.fault.found, e.aborted && e.fault.code > 0:
		return e.fault.outcome()
	case e.aborted:
		return Aborted
	case r.expected && complete && r.form == formText:
		return Empty
	case !complete || !whole || !known || r.partial || r.odd && !r.expected || e.plain:
		return Complete
	case r.form == formOther || (e.pending || r.cut) && r.form != formEvents:
		return Complete
	case e.output || e.finished || e.used:
		if r.form == formEvents && e.known && !e.finished && !e.terminated && !e.usage {
			return Unfinished
		}
		return Complete
	case r.expected && e.fault.blames():
		return e.fault.outcome()
	case r.form == formEvents && !e.terminated && !e.usage:
		return Unfinished
	case e.known || e.terminated || r.expected:
		return Empty
	}
	return Complete
}

// Fault returns the text of the error in the answer, or the beginning of that: a JSON object. It is empty where there
// is none, or where that says that the server is to blame. It is for after Outcome.
func (r *Reader) Fault() []byte {
	f := &r.seen.fault
	switch {
	case f.code >= 500 || f.outcome() == Overloaded:
		return nil
	case len(f.text) > 0 || r.form != formValue || r.seen.output:
		return f.text
	case r.cut:
		return r.head
	}
	return r.tail
}

// readLast reads the end of a stream again, from whole lines on. It reports whether that shows how the stream has
// ended.
func (r *Reader) readLast(whole bool) (known bool) {
	if r.form != formEvents {
		return true
	}
	if !r.begun {
		return r.readOpen(whole)
	}
	text, data, odd, partial := r.last, r.data, r.odd, r.partial
	if known = !r.lastCut; r.joined || r.lastCut {
		next := bytes.IndexByte(text, '\n') + 1
		text = text[next:]
		known = known || next > 0 && len(trim(text)) > 0
	}
	r.name = nameOther
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		if ended || whole {
			r.line(line)
		}
		text = rest
	}
	r.data, r.odd, r.partial = data, odd, partial
	return known
}

// readOpen reads the line in which a stream ends that has not begun.
func (r *Reader) readOpen(whole bool) (known bool) {
	line := r.tail
	if r.cut {
		line = r.head
	}
	if partial := r.partial; whole && len(line) > 0 {
		r.line(line)
		r.partial = partial || r.partial && r.cut
	}
	return !r.cut || len(line) > 0
}

// RefusesForNow reports whether a server that answers with the status asks to try again later.
func RefusesForNow(status int) bool { return status == 429 || status == 503 || status == 529 }

// IsUnserved reports whether no model has worked on a request that its server has answered with the status.
func IsUnserved(status int) bool {
	switch status {
	case 503, 529:
		return true
	case 408, 499: // the client was slow or left
		return false
	}
	return status >= 400 && status < 500
}
