package answer

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

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
