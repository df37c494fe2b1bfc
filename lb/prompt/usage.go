package prompt

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// Usage is what a model server reports that a request took, in tokens.
//
// Anthropic's own API counts as input only the part of the prompt that was neither read from the cache nor written to
// it; engines that offer that API count the whole prompt. So the number is assumed to be the whole prompt unless it is
// below the other two: then the three are added up.
type Usage struct {
	Prompt int // of the whole prompt
	Cached int // of the prompt, found in the KV cache
	Output int // of all answers together
}

// UsageReader finds the usage in a response as it passes: a stream of events, or an answer in one part. It reads it
// only where no client or model can write:
//
//   - `usage` (OpenAI, Anthropic), `meta_info` (SGLang) or `usageMetadata` (Gemini), of the answer or event itself,
//     or of the last element of a list that has it;
//   - in an event also `usage` of its `response` (OpenAI) or `message` (Anthropic).
//
// The arguments of a tool may be JSON that looks the same. So the reader retains the end of an incomplete event or
// answer, at most 2 KiB, and searches it backwards from its last bracket once it is complete: the nesting is known from
// there, however much of the beginning was dropped.
type UsageReader struct {
	usage       Usage
	cacheWrites int // tokens written to the cache, in Anthropic's field for them
	found       bool
	cacheReads  bool // usage.Cached is from Anthropic's field for it
	form        form
	cut         bool   // tail does not begin at the beginning of the event or answer
	tail        []byte // of the event or answer so far
}

// form is the format of a response.
type form uint8

const (
	formUnknown form = iota // only white space so far
	formEvents              // server-sent events: each line is complete in itself
	formValue               // one JSON value
)

// usageTail is how many bytes of an event or answer are retained. Usage is close to the end.
const usageTail = 2 << 10

// Read reads the next part of the response.
func (r *UsageReader) Read(part []byte) {
	if r.form == formUnknown && !r.cut {
		r.form = formOf(part)
	}
	if r.form == formEvents {
		r.events(part)
		return
	}
	r.keepTail(part)
	if r.form == formUnknown && r.cut && hasBlankLine(r.tail) {
		r.form = formEvents
		text := r.tail
		r.tail = r.tail[:0]
		r.events(text)
	}
}

// Skip records that a part of the response is left out.
func (r *UsageReader) Skip() { r.tail, r.cut = r.tail[:0], true }

// Usage returns what was found, and whether anything was; complete is true at the end of the response. Of several
// events that report a number the last one counts.
func (r *UsageReader) Usage(complete bool) (Usage, bool) {
	if complete {
		r.readPart(r.tail)
	}
	u := r.usage
	if r.cacheReads && u.Cached+r.cacheWrites > u.Prompt {
		u.Prompt += u.Cached + r.cacheWrites
	}
	return u, r.found
}

// hasBlankLine reports whether the text has a blank line: one ends each event, and JSON has none.
func hasBlankLine(text []byte) bool {
	return bytes.Contains(text, []byte("\n\n")) || bytes.Contains(text, []byte("\r\n\r\n"))
}

// formOf returns the format of a response that begins with part.
func formOf(part []byte) form {
	for _, b := range part {
		switch {
		case jsontext.IsSpace(b):
		case b == '{' || b == '[':
			return formValue
		default:
			return formEvents
		}
	}
	return formUnknown
}

// events reads lines or parts of them. Most parts are one event without usage.
func (r *UsageReader) events(text []byte) {
	if n := len(text); n > 0 && len(r.tail) == 0 && !r.cut && text[n-1] == '\n' && !mayHaveUsage(text) {
		return
	}
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			r.keepTail(text)
			return
		}
		line := text[:end]
		if len(r.tail) > 0 {
			r.keepTail(line)
			line = r.tail
		}
		r.readPart(line)
		r.tail, r.cut = r.tail[:0], false
		text = text[end+1:]
	}
}

// keepTail retains a part of an event or answer until it is complete.
func (r *UsageReader) keepTail(part []byte) {
	if len(part) > 0 && r.tail == nil {
		r.tail = make([]byte, 0, usageTail)
	}
	if over := len(r.tail) + len(part) - usageTail; over > 0 {
		r.cut = true
		drop := min(over, len(r.tail))
		r.tail = r.tail[:copy(r.tail, r.tail[drop:])]
		part = part[over-drop:]
	}
	r.tail = append(r.tail, part...)
}

var tokensSuffix, countSuffix = []byte(`_tokens"`), []byte(`TokenCount"`)

// mayHaveUsage reports whether the text may contain usage. The quotes of what a model writes are escaped.
func mayHaveUsage(text []byte) bool {
	return bytes.Contains(text, tokensSuffix) || bytes.Contains(text, countSuffix)
}

// readPart reads the usage of a complete event or answer.
func (r *UsageReader) readPart(text []byte) {
	if !mayHaveUsage(text) {
		return
	}
	if at := r.findUsage(text); at >= 0 {
		r.readUsage(text[at:])
	}
}

// readUsage reads the object with the usage at the beginning of the text.
func (r *UsageReader) readUsage(text []byte) {
	var name []byte
	details := false // in the details of the prompt
	for i, depth := 0, 0; i < len(text); {
		switch text[i] {
		case '{', '[':
			depth++
			i++
		case '}', ']':
			if depth--; depth == 0 {
				return
			}
			i++
		case ' ', '\n', '\t', '\r', ',', ':':
			i++
		case '"':
			name, _, i = jsontext.SkipString(text, i)
			if depth == 1 {
				details = string(name) == "prompt_tokens_details" || string(name) == "input_tokens_details"
			}
		default:
			end := jsontext.SkipScalar(text, i)
			counts := depth == 1 || depth == 2 && details && string(name) == "cached_tokens"
			if n, ok := tokenCount(text[i:end]); ok && counts {
				r.set(name, n)
			}
			i = end
		}
	}
}

func (r *UsageReader) set(name []byte, n int) {
	switch string(name) {
	case "prompt_tokens", "input_tokens", "promptTokenCount":
		r.usage.Prompt, r.found = n, true
	case "cached_tokens", "cachedContentTokenCount":
		r.usage.Cached = n
	case "cache_read_input_tokens":
		r.usage.Cached, r.cacheReads = n, true
	case "cache_creation_input_tokens":
		r.cacheWrites = n
	case "completion_tokens", "output_tokens", "candidatesTokenCount":
		r.usage.Output = n
	}
}

// tokenCount reads a number of tokens.
func tokenCount(text []byte) (n int, ok bool) {
	for _, c := range text {
		if c-'0' > 9 || n >= maxCount/10 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(text) > 0
}
