package answer

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// Reader reads an answer as it passes: a stream of events, lines of JSON, or one JSON value, which may be cut into
// parts at any byte. It retains a few KiB at most. The zero value has read nothing.
//
// Usage is read only where no client or model can write:
//
//   - `usage` (OpenAI, Anthropic), `meta_info` (SGLang) or `usageMetadata` (Gemini), of the answer or event itself,
//     or of the last element of a list that has it;
//   - in an event also `usage` of its `response` (OpenAI) or `message` (Anthropic).
//
// The arguments of a tool may be JSON that looks the same. So the reader retains the end of an incomplete event or
// answer, and searches it backwards from its last bracket once it is complete: the nesting is known from there, however
// much of the beginning was dropped.
type Reader struct {
	usage usageSeen
	form  form
	cut   bool   // tail does not begin at the beginning of the event or answer
	tail  []byte // of the event or answer so far
	head  []byte // beginning of the event or answer, once tail has lost it

	tally     *tally // of its events with output, nil if nobody wants that
	noUsage   bool   // nobody wants the usage
	begun     bool   // it shows output: no more is needed of beginnings
	data      int    // events that may be output of an API that is not known, while nothing else has shown any
	odd       bool   // there were events of no API that is known
	expected  bool   // it has to be in an API that is known
	partial   bool   // an event that may be output was too long to tell
	unsettled int    // bytes read before that
	seen      seen
	name      eventName // of the event whose data is to come
	last      []byte    // end of an answer that has begun
	joined    bool      // last begins within a line, which was read
	lastCut   bool      // last begins within a line, and what is before it is not known
}

// form is the format of an answer.
type form uint8

const (
	formUnknown form = iota // only white space so far
	formEvents              // server-sent events, or lines of JSON: each line is complete in itself
	formValue               // one JSON value
	formText                // nothing that is read, but a text
	formOther               // nothing that is read
)

const (
	// tailSize is how many bytes of an event or answer are retained. Usage is close to the end, and what kind of event
	// it is, close to the beginning.
	tailSize = 2 << 10
	// lastSize is how many bytes of the end of a stream are retained: those of the last events.
	lastSize = 1 << 10
	// maxUnsettled is after how many bytes an answer that has shown no output counts as one that has.
	maxUnsettled = 1 << 20
)

// ByLines has the reader take the answer for events, or lines of JSON, as its headers say.
func (r *Reader) ByLines() { r.form = formEvents }

// WithoutUsage has the reader not look for usage, which costs less.
func (r *Reader) WithoutUsage() { r.noUsage = true }

// Read reads the next part of the answer.
func (r *Reader) Read(part []byte) {
	if r.begun && r.tally != nil && len(r.tail) == 0 && !r.cut && r.tally.isAlone(part) {
		return // it says nothing of how the stream ends
	}
	if r.form == formUnknown && !r.cut {
		r.form = formOf(part)
	}
	if !r.begun {
		r.unsettled += len(part)
		r.joined = r.cut || len(r.tail) > 0
	}
	switch r.form {
	case formEvents:
		r.events(part)
	case formText, formOther:
		r.begun = true
	default:
		r.value(part)
	}
	r.begun = r.begun || r.unsettled > maxUnsettled
	if r.begun {
		r.keepLast(part)
	}
}

// Skip records that a part of the answer is left out.
func (r *Reader) Skip() {
	r.tail, r.head, r.cut = r.tail[:0], r.head[:0], true
	r.last, r.lastCut = r.last[:0], true
}

// Usage returns what was found, and whether anything was; complete is true at the end of the answer. Of several
// events that report a number the last one counts.
func (r *Reader) Usage(complete bool) (Usage, bool) {
	if complete {
		r.usage.read(r.tail, r.cut, r.form == formEvents)
	}
	return r.usage.sum(), r.usage.found
}

// hasBlankLine reports whether the text has a blank line: one ends each event, and JSON has none.
func hasBlankLine(text []byte) bool {
	return bytes.Contains(text, []byte("\n\n")) || bytes.Contains(text, []byte("\r\n\r\n"))
}

// formOf returns the format of an answer that begins with part.
//
//go:noinline
func formOf(part []byte) form {
	for _, b := range part {
		switch {
		case jsontext.IsSpace(b):
		case b == '{' || b == '[':
			return formValue
		case bytes.IndexByte([]byte(":deir"), b) >= 0: // as all fields of events, and comments
			return formEvents
		case b < 0x7f && b > ' ':
			return formText
		default: // compressed, or audio
			return formOther
		}
	}
	return formUnknown
}

// value reads a part of one JSON value, or of an answer whose beginning was left out.
func (r *Reader) value(part []byte) {
	whole := len(r.tail) == 0 && !r.cut
	if r.noUsage {
		if whole && r.form == formValue && !r.begun && r.beginsWith(part) || r.begun {
			return
		}
	}
	r.keepTail(part)
	if r.form == formUnknown && r.cut && hasBlankLine(r.tail) {
		r.form = formEvents
		text := r.tail
		r.tail = r.tail[:0]
		r.events(text)
		return
	}
	if r.begun || r.form != formValue {
		return
	}
	switch {
	case whole:
		r.beginsWith(part)
	case !r.cut:
		r.beginsWith(r.tail)
	default:
		r.beginsWith(r.head)
	}
	switch {
	case r.begun:
	case r.cut: // what begins so late is not waited for
		r.begun = true
	case r.form == formEvents:
		text := r.tail
		r.tail = r.tail[:0]
		r.events(text)
	}
}

// beginsWith reads the beginning of one JSON value, and reports whether it shows that the answer has begun. Where
// another value follows, the answer comes by lines, whatever its headers say.
func (r *Reader) beginsWith(text []byte) bool {
	e := &r.seen
	e.brief = true
	end := e.value(text)
	r.begun = e.over()
	if end = jsontext.Space(text, end); !r.begun && end < len(text) && text[end] == '{' {
		e.brief, r.form = false, formEvents
	}
	return r.begun
}

// events reads lines or parts of them. Most parts are one event without usage.
func (r *Reader) events(text []byte) {
	n := len(text)
	if r.begun && r.noUsage {
		return
	}
	if r.tally == nil && r.begun && n > 0 && len(r.tail) == 0 && !r.cut && text[n-1] == '\n' && !mayHaveUsage(text) {
		return
	}
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			r.keepTail(text)
			return
		}
		line, known := text[:end], !r.cut
		if len(r.tail) > 0 {
			r.keepTail(line)
			line = r.tail
		}
		if r.begun && r.tally != nil && !r.cut && r.tally.isAlike(line) {
			r.tail = r.tail[:0]
			text = text[end+1:]
			continue
		}
		r.usage.read(line, r.cut, true)
		if !r.begun {
			if r.cut {
				line, known = r.head, len(r.head) > 0
			}
			if known {
				r.line(line)
			}
			r.begun = r.seen.settled()
		}
		if r.begun && r.tally != nil {
			r.tally.count(line, r.cut)
		}
		r.tail, r.head, r.cut = r.tail[:0], r.head[:0], false
		text = text[end+1:]
	}
}

// keepTail retains a part of an event or answer until it is complete.
func (r *Reader) keepTail(part []byte) {
	if !r.cut && !r.begun && len(r.tail)+len(part) > tailSize {
		r.head = append(r.head[:0], r.tail...)
		r.head = append(r.head, part[:tailSize-len(r.tail)]...)
	}
	retain(&r.tail, part, tailSize, &r.cut)
}

// keepLast retains the end of an answer that has begun.
func (r *Reader) keepLast(part []byte) {
	if r.form == formEvents {
		retain(&r.last, part, lastSize, &r.lastCut)
	}
}

// retain appends a part, and drops what is more than size bytes before the end: then it sets dropped.
//
//go:noinline
func retain(to *[]byte, part []byte, size int, dropped *bool) {
	text := *to
	if over := len(text) + len(part) - size; over > 0 {
		*dropped = true
		drop := min(over, len(text))
		text = text[:copy(text, text[drop:])]
		part = part[over-drop:]
	}
	*to = append(text, part...)
}

// Tally is how many events of a stream have shown output. Most engines send one for each token, or for the few that one
// step has made.
type Tally struct {
	Events   int64 // with output
	Thoughts int64 // of those by which the model only thinks
}

// tally counts the events of a stream.
//
// Most events of a stream are alike but for one string, which is the output: such an event is compared, not read. What
// is around that string is kept of the latest event that was read.
type tally struct {
	Tally
	seen    seen   // of one event
	around  []byte // what is around the text of an event, in one piece
	before  int    // bytes of it that are in front of the text; 0 for nothing known
	thought bool   // such a text is what the model thinks
}

// Count has the reader count the events that show output, once the answer has begun.
func (r *Reader) Count() {
	if r.tally == nil {
		r.tally = &tally{}
	}
}

// Tally returns what was counted so far.
func (r *Reader) Tally() Tally {
	if r.tally == nil {
		return Tally{}
	}
	return r.tally.Tally
}

// isAlone counts a part that is one event like the one before, and reports whether it is.
func (t *tally) isAlone(part []byte) bool {
	end := len(part)
	for end > 0 && part[end-1] == '\n' {
		end--
	}
	line := part[:end]
	return end < len(part) && bytes.IndexByte(line, '\n') < 0 && t.isAlike(line)
}

// isAlike counts a line that is like the event before but for its text, and reports whether it is. That text has to be
// free of quotes, so that it ends where that of the event before did.
func (t *tally) isAlike(line []byte) bool {
	size := len(line) - len(t.around)
	if t.before == 0 || size <= 0 || !bytes.Equal(line[:t.before], t.around[:t.before]) ||
		!bytes.Equal(line[t.before+size:], t.around[t.before:]) {
		return false
	}
	text := line[t.before : t.before+size]
	if bytes.IndexByte(text, '"') >= 0 || text[size-1] == '\\' {
		return false
	}
	t.add(t.thought)
	return true
}

func (t *tally) add(thought bool) {
	t.Events++
	if thought {
		t.Thoughts++
	}
}

// count reads a line, and counts it if it is an event with output. cut: its beginning was dropped, as only that of one
// with much in it is.
func (t *tally) count(line []byte, cut bool) {
	if cut {
		t.add(false)
		return
	}
	at := 0
	if bytes.HasPrefix(line, dataField) {
		at = len(dataField)
	}
	if at = jsontext.Space(line, at); at >= len(line) || line[at] != '{' && line[at] != '[' {
		return
	}
	e := &t.seen
	*e = seen{}
	if e.value(line[at:]); !e.output || e.kind != nameOther || e.repeats {
		return
	}
	thought := e.thinks || !e.said
	t.add(thought)
	if e.texts != 1 || e.finished || e.usage {
		return
	}
	from, to := at+e.at[0], at+e.at[1]
	t.before, t.thought = from, thought
	t.around = append(append(t.around[:0], line[:from]...), line[to:]...)
}

var dataField = []byte("data:")
