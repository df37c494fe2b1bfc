package answer

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// seen is what an answer has shown so far: all of its events, or the beginning of one value.
type seen struct {
	known      bool // it is in an API that is known
	list       bool // it is a list of answers
	candidates bool // it has candidates, as Gemini's answers
	choices    bool // the latest event has some, as OpenAI's
	output     bool // some of it is output: text, reasoning, a tool call, audio, log probabilities
	said       bool // likewise, and no reasoning
	thinks     bool // its output is reasoning, whatever that is called
	repeats    bool // its output has come before, in parts
	finished   bool // the engine says that it is done, and why
	terminated bool // by what ends every stream of its API
	aborted    bool // the engine has given up
	usage      bool // it reports what it took, at the end
	used       bool // and that is more than nothing
	pending    bool // it is computed in the background
	plain      bool // its text is one string, or it is a list: even if empty, it needs nothing else to be an answer
	brief      bool // what comes behind output does not matter
	kind       eventName
	texts      int    // strings that may be output
	at         [2]int // where the latest of them begins and ends, in the text that is read
	fault      fault
}

// settled reports whether nothing of the prompt is left to compute.
func (e *seen) settled() bool { return e.output || e.finished || e.terminated || e.fault.found }

// over reports whether nothing more has to be read of the only value: of an error all is, for who is to blame.
func (e *seen) over() bool {
	return (e.output || e.finished && !e.aborted || e.terminated) && !e.fault.found
}

// value reads an event, or an answer, that may be cut off, and returns the index after it; 0 if the text is not JSON.
func (e *seen) value(text []byte) (end int) {
	at := jsontext.Space(text, 0)
	if at >= len(text) || text[at] != '{' && text[at] != '[' {
		return 0
	}
	e.fault.inner = false
	if text[at] == '[' {
		e.list = true
		end = e.elements(text, at, placeTop)
	} else {
		end = e.object(text, at, placeTop)
	}
	if e.fault.found && !e.fault.inner && (e.brief || len(e.fault.text) == 0) {
		e.fault.keep(text[at:end])
	}
	return end
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
		if at = e.member(text, at, in, name); e.brief && e.over() {
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
		if len(content) > 0 && (!cut || as == roleText || as == roleThought || as > place) {
			e.text(as, name, content)
			if as == roleText || as == roleThought || as == placeMessage {
				e.texts++
				e.at = [2]int{at + 1, at + 1 + len(content)}
			}
		}
		return end
	case as == roleFinish && first == '{' && in == placeMeta:
		return e.inner(text, at, placeFinish)
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

// inner reads an object that may be that of an error, and returns the index after it.
func (e *seen) inner(text []byte, at int, in role) (end int) {
	end = e.object(text, at, in)
	if e.fault.found || e.aborted {
		e.fault.inner = true
		e.fault.keep(text[at:end])
	}
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
	case roleText, roleThought, roleGenerated:
		if isFilled(text, at) {
			e.output, e.said = true, e.said || as != roleThought
		}
	case roleThinks:
		e.thinks = e.thinks || text[at] == 't'
	case roleDone:
		is := text[at] == 't'
		e.finished, e.terminated = e.finished || is, e.terminated || is
	case roleFinish: // Gemini's feedback on a prompt that it does not answer
		e.finished = e.finished || isFilled(text, at)
	case roleUsage:
		e.usage, e.used = true, e.used || countsAny(text, at)
	case roleCode, roleStatus:
		if end := jsontext.SkipScalar(text, at); end < len(text) { // else more digits may come
			e.fault.setCode(text[at:end])
		}
	case roleError:
		if text[at] == '{' && isFilled(text, at) {
			e.fault.found = true
			e.inner(text, at, placeFault)
		}
	}
}

// countsAny reports whether the object at at has a number that is not zero.
//
//go:noinline
func countsAny(text []byte, at int) bool {
	for depth := 0; at < len(text); {
		switch c := text[at]; {
		case c == '"':
			_, _, at = jsontext.SkipString(text, at)
			continue
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c >= '1' && c <= '9':
			return true
		}
		if at++; depth <= 0 {
			return false
		}
	}
	return false
}

// text takes over a string that is not empty.
func (e *seen) text(as role, name, content []byte) {
	switch as {
	case roleText, placeResponse:
		e.output, e.said = true, true
	case roleThought:
		e.output = true
	case placeMessage:
		if string(name) == "delta" { // a message may be that of an error
			e.output, e.said = true, true
		}
	case roleError:
		e.fault.found = true
	case roleGenerated:
		e.output, e.said, e.finished, e.terminated = true, true, true, true
	case roleFinish:
		e.finish(content)
	case roleType:
		e.thinks = e.thinks || bytes.HasPrefix(content, []byte("response.reasoning"))
		e.repeats = e.repeats || bytes.HasSuffix(content, []byte(".done"))
		if kind, known := nameOf(content); known {
			e.kind, e.known = kind, e.known || kind != nameBeat
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
		e.plain = e.plain || string(content) == "list"
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
