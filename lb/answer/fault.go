package answer

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// fault is an error in an answer whose status is good.
type fault struct {
	found bool
	code  int // the status that the answer would better have, 0 if it does not say
	class Outcome
}

// object reads an object that describes an error.
func (f *fault) object(text []byte) {
	for at := next(text, 1); at < len(text) && text[at] == '"'; at = next(text, at) {
		name, _, after := jsontext.SkipString(text, at)
		if at = jsontext.AfterKey(text, after); at < 0 || at >= len(text) {
			return
		}
		switch string(name) {
		case "code", "status_code", "http_code", "status", "type":
			value := text[at:max(at, jsontext.SkipScalar(text, at))]
			if text[at] == '"' {
				value, _, _ = jsontext.SkipString(text, at)
				f.setClass(value)
			}
			f.setCode(value)
		}
		at, _ = jsontext.SkipValue(text, at, len(text))
	}
}

// setCode takes over a status in digits.
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

// words are parts of the names of errors, in lower case, and who is to blame for those.
var words = [...]struct {
	word  string
	class Outcome
}{
	{"overload", Overloaded}, {"rate_limit", Overloaded}, {"ratelimit", Overloaded}, {"exhausted", Overloaded},
	{"unavailable", Overloaded}, {"quota", Overloaded}, {"too_many", Overloaded}, {"toomany", Overloaded},
	{"invalid", Refused}, {"validation", Refused}, {"badrequest", Refused}, {"bad_request", Refused},
	{"notfound", Refused}, {"not_found", Refused}, {"auth", Refused}, {"permission", Refused},
	{"context_length", Refused}, {"content_", Refused}, {"unsupported", Refused}, {"unprocessable", Refused},
	{"too_large", Refused}, {"toolarge", Refused}, {"out_of_range", Refused}, {"billing", Refused},
}

// setClass takes over the name of an error.
func (f *fault) setClass(name []byte) {
	if f.class != Complete || len(name) > 64 {
		return
	}
	lower := bytes.ToLower(name)
	for i := range words {
		if bytes.Contains(lower, []byte(words[i].word)) {
			f.class = words[i].class
			return
		}
	}
}

// outcome returns who is to blame.
func (f *fault) outcome() Outcome {
	switch c := f.code; {
	case c == 429 || c == 503 || c == 529:
		return Overloaded
	case c == 501 || c == 505 || c >= 400 && c < 500:
		return Refused
	case c >= 500 || f.class == Complete:
		return Failed
	}
	return f.class
}
