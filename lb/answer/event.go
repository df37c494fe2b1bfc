package answer

import "github.com/warmgate/warmgate/internal/jsontext"

// seen is what an answer has shown so far: all of its events, or the beginning of one value.
type seen struct {
	known      bool // it is in an API that is known
	list       bool // it is a list of answers
	candidates bool // it has candidates, as Gemini's answers
	choices    bool // the latest event has some, as OpenAI's
	output     bool // some of it is output: text, reasoning, a tool call, audio, log probabilities
	finished   bool // the engine says that it is done, and why
	terminated bool // by what ends every stream of its API
	aborted    bool // the engine has given up
	usage      bool // it reports what it took, at the end
	pending    bool // it is computed in the background
	plain      bool // its text is one string, even an empty one: then it needs nothing else to be an answer
	brief      bool // what comes behind output does not matter
	kind       eventName
	fault      fault
}

// settled reports whether nothing of the prompt is left to compute.
func (e *seen) settled() bool { return e.output || e.finished || e.terminated || e.fault.found }

// value reads an event, or an answer, that may be cut off. It reports whether the text is JSON.
func (e *seen) value(text []byte) bool {
	at := jsontext.Space(text, 0)
	if at >= len(text) || text[at] != '{' && text[at] != '[' {
		return false
	}
	if text[at] == '[' {
		e.list = true
		e.elements(text, at, placeTop)
	} else {
		e.object(text, at, placeTop)
	}
	return true
}

// next returns the index of the next element or member. Like others here it is not inlined, for the size of the
// artifacts.
//
//go:noinline
func next(text []byte, at int) int {
	for at < len(text) && (text[at] == ',' || jsontext.IsSpace(text[at])) {
		at++
	}
	return at
}

// elements reads a list, whose objects have the place, and returns the index after it.
func (e *seen) elements(text []byte, at int, in role) (end int) {
	for at = next(text, at+1); at < len(text) && text[at] != ']'; at = next(text, at) {
		if text[at] == '{' {
			at = e.object(text, at, in)
			continue
		}
		at, _ = jsontext.SkipValue(text, at, len(text))
	}
	return min(at+1, len(text))
}

// object reads an object in its place, and returns the index after it.
func (e *seen) object(text []byte, at int, in role) (end int) {
	for at = next(text, at+1); at < len(text) && text[at] == '"'; at = next(text, at) {
		name, _, after := jsontext.SkipString(text, at)
		if at = jsontext.AfterKey(text, after); at < 0 || at >= len(text) {
			return len(text)
		}
		if at = e.member(text, at, in, name); e.brief && e.output {
			return len(text)
		}
	}
	if at < len(text) && text[at] != '}' {
		return len(text) // no JSON
	}
	return min(at+1, len(text))
}

// member reads the value of a member, and returns the index after it.
func (e *seen) member(text []byte, at int, in role, name []byte) (end int) {
	as, _ := find(roles[in], name)
	if as&ofAPI != 0 {
		as &^= ofAPI
		e.known = true
		e.candidates = e.candidates || as == placeCandidate
		e.plain = e.plain || text[at] == '"'
	}
	first := text[at]
	switch {
	case first == '"':
		content, _, end := jsontext.SkipString(text, at)
		cut := len(content) > end-at-2 // the rest of it is still to come
		if len(content) > 0 && (!cut || as == roleText || as > place) {
			e.text(as, name, content)
		}
		return end
	case as == roleFinish && first == '{' && in == placeMeta:
		return e.object(text, at, placeFinish)
	case as > place && first == '{':
		return e.object(text, at, as)
	case as > place && first == '[':
		e.choices = e.choices || as == placeChoice && isFilled(text, at)
		return e.elements(text, at, as)
	case first != 'n' && as != roleNone: // null
		e.other(as, text, at)
	}
	end, _ = jsontext.SkipValue(text, at, len(text))
	return end
}

// isFilled reports whether the value at at is no empty list or object.
//
//go:noinline
func isFilled(text []byte, at int) bool {
	if text[at] != '[' && text[at] != '{' {
		return true
	}
	at = jsontext.Space(text, at+1)
	return at < len(text) && text[at] != ']' && text[at] != '}'
}

// other takes over a value that is neither a string, nor null, nor in a place of its own.
func (e *seen) other(as role, text []byte, at int) {
	switch as {
	case roleText, roleGenerated:
		e.output = e.output || isFilled(text, at)
	case roleDone:
		is := text[at] == 't'
		e.finished, e.terminated = e.finished || is, e.terminated || is
	case roleFinish: // Gemini's feedback on a prompt that it does not answer
		e.finished = e.finished || isFilled(text, at)
	case roleUsage:
		e.usage = true
	case roleCode:
		e.fault.setCode(text[at:jsontext.SkipScalar(text, at)])
	case roleError:
		if text[at] == '{' && isFilled(text, at) {
			e.fault.found = true
			e.object(text, at, placeFault)
		}
	}
}

// text takes over a string that is not empty.
func (e *seen) text(as role, name, content []byte) {
	switch as {
	case roleText, placeResponse:
		e.output = true
	case placeMessage:
		e.output = e.output || string(name) == "delta" // a message may be that of an error
	case roleError:
		e.fault.found = true
	case roleGenerated:
		e.output, e.finished, e.terminated = true, true, true
	case roleFinish:
		e.finish(content)
	case roleType:
		if kind, known := nameOf(content); known {
			e.kind, e.known = kind, true
			if kind == nameError {
				e.fault.found = true
			}
		} else {
			e.fault.setClass(content)
		}
	case roleObject:
		if string(content) == "error" { // vLLM before 0.10, SGLang
			e.known, e.fault.found = true, true
		}
		e.known = e.known || string(content) == "response"
	case roleStatus:
		e.status(content)
	case roleCode:
		e.fault.setClass(content)
		e.fault.setCode(content)
	}
}

// Reasons for which answers end, as far as they matter. Any other is a good one.
const (
	endsNot uint8 = iota
	endsAborted
)

var reasons = []word{
	{"abort", endsAborted},
	{"aborted", endsAborted},
	{"cancelled", endsAborted},
	{"error", endsAborted},
	{"FINISH_REASON_UNSPECIFIED", endsNot},
}

// finish takes over why an answer ends.
//
//go:noinline
func (e *seen) finish(why []byte) {
	reason, known := find(reasons, why)
	e.aborted = e.aborted || known && reason == endsAborted
	e.finished = e.finished || !known || reason != endsNot
}

// How an answer of OpenAI's Responses API is.
const (
	statusFailed uint8 = iota
	statusPending
	statusFinished
)

var statuses = []word{
	{"failed", statusFailed},
	{"queued", statusPending},
	{"in_progress", statusPending},
	{"completed", statusFinished},
	{"incomplete", statusFinished},
	{"cancelled", statusFinished},
}

// status takes over how an answer of the Responses API is.
//
//go:noinline
func (e *seen) status(of []byte) {
	status, known := find(statuses, of)
	switch {
	case !known:
	case status == statusPending:
		e.pending = true
	case status == statusFailed:
		e.fault.found = e.fault.found || e.known
	default:
		e.finished = e.finished || e.known
	}
}
