package answer

import "bytes"

// fault is an error in an answer whose status is good.
type fault struct {
	found bool
	code  int // the status that the answer would better have, 0 if it does not say
	class Outcome
	text  []byte // of the object that says it, or its beginning
	inner bool   // that is not the whole event or answer
}

// faultBytes is how many bytes of an error are retained.
const faultBytes = 2 << 10

// keep retains the text of the error.
//
//go:noinline
func (f *fault) keep(text []byte) {
	f.text = append(f.text[:0], text[:min(len(text), faultBytes)]...)
}

// blames reports whether it is known who is to blame.
func (f *fault) blames() bool { return f.code > 0 || f.class != Complete }

// setCode takes over a status in digits.
//
//go:noinline
func (f *fault) setCode(digits []byte) {
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' || n > 599 {
			return
		}
		n = 10*n + int(c-'0')
	}
	if n >= 400 && n <= 599 {
		f.code = n
	}
}

const noRoom, theirs = uint8(Overloaded), uint8(Refused)

// blames are parts of the names of errors, in lower case, and who is to blame for those.
var blames = []word{
	{"overload", noRoom},
	{"rate_limit", noRoom},
	{"ratelimit", noRoom},
	{"exhausted", noRoom},
	{"unavailable", noRoom},
	{"quota", noRoom},
	{"too_many", noRoom},
	{"toomany", noRoom},
	{"invalid", theirs},
	{"validation", theirs},
	{"badrequest", theirs},
	{"bad_request", theirs},
	{"notfound", theirs},
	{"not_found", theirs},
	{"auth", theirs},
	{"permission", theirs},
	{"context_length", theirs},
	{"content_", theirs},
	{"unsupported", theirs},
	{"unprocessable", theirs},
	{"too_large", theirs},
	{"toolarge", theirs},
	{"out_of_range", theirs},
	{"billing", theirs},
	{"missing", theirs},
	{"value_error", theirs},
}

// setClass takes over the name of an error.
func (f *fault) setClass(name []byte) {
	var lower [64]byte
	if f.class != Complete || len(name) > len(lower) {
		return
	}
	for i, c := range name {
		if lower[i] = c; c >= 'A' && c <= 'Z' {
			lower[i] = c - 'A' + 'a'
		}
	}
	for i := range blames {
		if bytes.Contains(lower[:len(name)], []byte(blames[i].text)) {
			f.class = Outcome(blames[i].means)
			return
		}
	}
}

// outcome returns who is to blame.
func (f *fault) outcome() Outcome {
	switch c := f.code; {
	case RefusesForNow(c):
		return Overloaded
	case c == 501 || c == 505 || c >= 400 && c < 500:
		return Refused
	case c >= 500 || f.class == Complete:
		return Failed
	}
	return f.class
}
