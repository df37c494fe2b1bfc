package answer

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

// maxTokens bounds the numbers that are read, so that their sums and products cannot overflow.
const maxTokens = 1 << 30

var tokensSuffix, countSuffix = []byte(`_tokens"`), []byte(`TokenCount"`)

// mayHaveUsage reports whether the text may contain usage. The quotes of what a model writes are escaped.
func mayHaveUsage(text []byte) bool {
	return bytes.Contains(text, tokensSuffix) || bytes.Contains(text, countSuffix)
}

// readPart reads the usage of a complete event or answer.
func (r *Reader) readPart(text []byte) {
	if !mayHaveUsage(text) {
		return
	}
	if at := r.findUsage(text); at >= 0 {
		r.readUsage(text[at:])
	}
}

// readUsage reads the object with the usage at the beginning of the text.
func (r *Reader) readUsage(text []byte) {
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

func (r *Reader) set(name []byte, n int) {
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
		if c-'0' > 9 || n >= maxTokens/10 {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(text) > 0
}
