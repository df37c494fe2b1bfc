package prompt

import "bytes"

// Usage is what a model server says that a request took, in tokens.
//
// Anthropic's own API says of a prompt only what was not cached; engines that offer that API say all of it. So the number is taken
// for all of the prompt, unless less than what was cached: then they are added up.
type Usage struct {
	Prompt int // of the whole prompt
	Cached int // of the prompt, found in the KV cache
	Output int
}

// UsageReader finds the usage in a response as it passes: in one piece, or in one of its events. It looks for nothing else, and
// text that the model writes cannot look like it, because its quotes are escaped.
type UsageReader struct {
	usage Usage
	found bool
	read  bool            // what was cached stands in Anthropic's field for it
	tail  [usageTail]byte // the end of what has passed
	n     int
}

// usageTail is longer than a name with its number.
const usageTail = 64

// eventEnd ends an event of a stream. Nothing that is looked for goes on behind it.
var eventEnd = []byte("\n\n")

var tokensSuffix = []byte(`_tokens"`)

// Read looks at the next part of the response.
func (r *UsageReader) Read(part []byte) {
	if r.n > 0 {
		var joint [2 * usageTail]byte
		n := copy(joint[:], r.tail[:r.n])
		n += copy(joint[n:], part[:min(len(part), usageTail)])
		r.look(joint[:n])
	}
	r.look(part)
	if bytes.HasSuffix(part, eventEnd) { // most parts are one event
		r.n = 0
		return
	}
	if len(part) >= usageTail {
		r.n = copy(r.tail[:], part[len(part)-usageTail:])
		return
	}
	drop := max(0, r.n+len(part)-usageTail)
	r.n = copy(r.tail[:], r.tail[drop:r.n])
	r.n += copy(r.tail[r.n:], part)
}

// Skip tells that a part of the response is left out.
func (r *UsageReader) Skip() { r.n = 0 }

// Usage returns what was found. The last one counts: some servers tell it with every event.
func (r *UsageReader) Usage() (Usage, bool) {
	u := r.usage
	if r.read && u.Cached > u.Prompt {
		u.Prompt += u.Cached
	}
	return u, r.found
}

// look looks for names with whole numbers behind them.
func (r *UsageReader) look(text []byte) {
	for {
		at := bytes.Index(text, tokensSuffix)
		if at < 0 {
			return
		}
		quote, end := bytes.LastIndexByte(text[:at], '"'), at+len(tokensSuffix)
		if n, ok := numberBehind(text[end:]); ok && quote >= 0 {
			r.set(text[quote+1:at], n)
		}
		text = text[end:]
	}
}

func (r *UsageReader) set(name []byte, n int) {
	switch string(name) {
	case "prompt", "input":
		r.usage.Prompt, r.found = n, true
	case "cached":
		r.usage.Cached = n
	case "cache_read_input":
		r.usage.Cached, r.read = n, true
	case "completion", "output":
		r.usage.Output = n
	}
}

// numberBehind reads a colon and a number that has ended.
func numberBehind(text []byte) (n int, ok bool) {
	colon := false
	for i, c := range text {
		switch {
		case !ok && isSpace(c):
		case c == ':' && !colon:
			colon = true
		case colon && c-'0' <= 9 && n < maxCount/10:
			n, ok = 10*n+int(c-'0'), true
		default:
			return n, ok && (c == ',' || c == '}' || isSpace(c)) && i > 0
		}
	}
	return 0, false
}
