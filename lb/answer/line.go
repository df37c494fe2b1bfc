package answer

import "bytes"

// eventName is what the name of an event says of the data behind it.
type eventName uint8

const (
	nameOther    eventName = iota
	nameControl            // the data carries no output, whatever it contains
	nameError              // it is an error, whatever it contains
	nameFinished           // it is the last one
)

// nameOf returns what the name of an event, or the type in its data, says. Names of output and those of other APIs are
// nameOther.
func nameOf(name []byte) (n eventName, known bool) {
	switch string(name) {
	case "ping", "message_start", "response.created", "response.queued", "response.in_progress":
		return nameControl, true
	case "error", "response.failed":
		return nameError, true
	case "message_stop", "response.completed", "response.incomplete", "response.cancelled",
		"transcript.text.done", "image_generation.completed", "image_edit.completed", "speech.audio.done":
		return nameFinished, true
	case "message_delta", "content_block_start", "content_block_delta", "content_block_stop":
		return nameOther, true
	}
	return nameOther, bytes.HasPrefix(name, []byte("response."))
}

// line reads a whole line of a stream, without its line end, or the beginning of a long one.
func (r *Reader) line(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		r.name = nameOther // the event ends
		return
	}
	if line[0] == '{' || line[0] == '[' {
		r.event(line)
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch string(field) {
	case "": // a comment
	case "data":
		if len(value) > 0 {
			r.event(value)
		}
	case "event":
		r.name, _ = nameOf(value)
	case "error": // llama.cpp
		r.seen.fault.found = true
		if len(value) > 0 && value[0] == '{' {
			r.seen.fault.object(value)
		}
	case "id", "retry":
	default:
		r.data++
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
	isJSON := e.value(data)
	e.fault.found = e.fault.found || e.kind == nameError // in whatever words
	switch e.kind {
	case nameControl:
		e.output = false
	case nameFinished:
		e.finished, e.terminated = e.finished || e.known || len(data) > 2, true
	}
	if !isJSON || !e.known && !e.output && e.kind == nameOther {
		r.data++
	}
	e.usage = usage || e.usage && !e.choices
	e.known, e.output = known || e.known, output || e.output
}
