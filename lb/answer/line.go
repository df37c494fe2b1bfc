package answer

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// eventName is what the name of an event says of the data behind it.
type eventName = uint8

const (
	nameOther    eventName = iota
	nameControl            // the data carries no output, whatever it contains
	nameBeat               // likewise, in any API
	nameError              // it is an error, whatever it contains
	nameFinished           // it is the last one
)

var eventNames = []word{
	{"ping", nameControl},
	{"keepalive", nameBeat},
	{"keep-alive", nameBeat},
	{"keep_alive", nameBeat},
	{"heartbeat", nameBeat},
	{"message_start", nameControl},
	{"response.created", nameControl},
	{"response.queued", nameControl},
	{"response.in_progress", nameControl},
	{"error", nameError},
	{"response.failed", nameError},
	{"message_stop", nameFinished},
	{"response.completed", nameFinished},
	{"response.incomplete", nameFinished},
	{"response.cancelled", nameFinished},
	{"transcript.text.done", nameFinished},
	{"image_generation.completed", nameFinished},
	{"image_edit.completed", nameFinished},
	{"speech.audio.done", nameFinished},
	{"message_delta", nameOther},
	{"content_block_start", nameOther},
	{"content_block_delta", nameOther},
	{"content_block_stop", nameOther},
}

// nameOf returns what the name of an event, or the type in its data, says, and whether it is of an API that is known.
//
//go:noinline
func nameOf(name []byte) (n eventName, known bool) {
	n, known = find(eventNames, name)
	return n, known || bytes.HasPrefix(name, []byte("response."))
}

// trim returns the text without white space around it.
//
//go:noinline
func trim(text []byte) []byte {
	for len(text) > 0 && jsontext.IsSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return text[jsontext.Space(text, 0):]
}

// The fields of events.
const (
	fieldComment uint8 = iota
	fieldData
	fieldEvent
	fieldError // llama.cpp
	fieldOther
)

var fields = []word{
	{"data", fieldData},
	{"event", fieldEvent},
	{"", fieldComment},
	{"error", fieldError},
	{"id", fieldOther},
	{"retry", fieldOther},
}

// line reads a whole line of a stream, without its line end, or the beginning of a long one.
func (r *Reader) line(line []byte) {
	line = trim(line)
	if len(line) == 0 {
		r.name = nameOther // the event ends
		return
	}
	if line[0] == '{' || line[0] == '[' {
		r.event(line)
		return
	}
	colon := bytes.IndexByte(line, ':')
	field, known := find(fields, line[:max(0, colon)])
	if colon < 0 || !known {
		r.other(true)
		return
	}
	value := trim(line[colon+1:])
	switch field {
	case fieldData:
		if len(value) > 0 {
			r.event(value)
		}
	case fieldEvent:
		r.name, _ = nameOf(value)
	case fieldError:
		r.seen.fault.found = true
		if len(value) > 0 && value[0] == '{' {
			r.seen.inner(value, 0, placeFault)
		}
	}
}

// event reads the data of an event, or a line of JSON.
func (r *Reader) event(data []byte) {
	e := &r.seen
	if string(data) == "[DONE]" {
		e.terminated = true
		return
	}
	known, output, usage := e.known, e.output, e.usage
	e.known, e.output, e.usage, e.choices, e.kind = false, false, false, false, r.name
	isJSON := e.value(data) > 0
	if !isJSON && e.kind == nameOther {
		if word, _ := nameOf(data); word == nameControl || word == nameBeat {
			e.kind = word
		}
	}
	if e.kind == nameError { // in whatever words
		if e.fault.found = true; len(e.fault.text) == 0 {
			e.fault.keep(data)
		}
	}
	odd := !isJSON || !e.known && !e.output
	switch e.kind {
	case nameControl, nameBeat:
		e.output = false
	case nameFinished:
		e.finished, e.terminated = e.finished || e.known || len(data) > 2, true
	}
	e.usage = usage || e.usage && !e.choices
	e.known, e.output = known || e.known, output || e.output
	switch e.kind {
	case nameBeat:
		r.other(false)
	case nameOther:
		if odd {
			r.other(isFilled(data, 0) && string(data) != "null" && string(data) != `""`)
		}
		r.partial = r.partial || (r.cut || isJSON && !isClosed(data)) && !e.output
	}
}

// isClosed reports whether an event ends like a value, not like the first line of one on many lines.
func isClosed(data []byte) bool { return data[len(data)-1] == '}' || data[len(data)-1] == ']' }

// other records an event that no API here has. Where the API is known it is no output; data: elsewhere it may be.
func (r *Reader) other(data bool) {
	r.odd = true
	if data && !r.seen.known && !r.expected {
		r.data++
	}
}
