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

	Reasoning int // of these, by which the model only thinks, if that is reported
}

// usageSeen is the usage that an answer has shown so far.
type usageSeen struct {
	latest      Usage
	cacheWrites int // tokens written to the cache, in Anthropic's field for them
	found       bool
	cacheReads  bool // latest.Cached is from Anthropic's field for it
	thoughts    int  // Gemini's, which are not in its output
}

// maxTokens bounds the numbers that are read, so that their sums and products cannot overflow.
const maxTokens = 1 << 30

var tokensSuffix, countSuffix = []byte(`_tokens"`), []byte(`TokenCount"`)

// mayHaveUsage reports whether the text may contain usage. The quotes of what a model writes are escaped.
func mayHaveUsage(text []byte) bool {
	return bytes.Contains(text, tokensSuffix) || bytes.Contains(text, countSuffix)
}

// read reads the usage of a complete event, or of a complete answer in one piece. cut: its beginning was dropped.
func (u *usageSeen) read(text []byte, cut, isEvent bool) {
	if !mayHaveUsage(text) {
		return
	}
	if at := findUsage(text, cut, isEvent); at >= 0 {
		u.readObject(text[at:])
	}
}

// sum returns the usage with the whole prompt, which Anthropic's API reports in parts.
func (u *usageSeen) sum() Usage {
	sum := u.latest
	if u.cacheReads && sum.Cached+u.cacheWrites > sum.Prompt {
		sum.Prompt += sum.Cached + u.cacheWrites
	}
	if u.thoughts > 0 {
		sum.Reasoning = u.thoughts
		sum.Output += u.thoughts
	}
	sum.Reasoning = min(sum.Reasoning, sum.Output)
	return sum
}

// readObject reads the object with the usage at the beginning of the text.
func (u *usageSeen) readObject(text []byte) {
	var name []byte
	detail := "" // the one that counts, in the object
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
				detail = detailIn(name)
			}
		default:
			end := jsontext.SkipScalar(text, i)
			counts := depth == 1 || depth == 2 && detail == string(name)
			if n, ok := tokenCount(text[i:end]); ok && counts {
				u.set(name, n)
			}
			i = end
		}
	}
}

// detailIn returns which member of the details of the prompt or the answer counts.
func detailIn(name []byte) string {
	switch string(name) {
	case "prompt_tokens_details", "input_tokens_details":
		return "cached_tokens"
	case "completion_tokens_details", "output_tokens_details":
		return "reasoning_tokens"
	}
	return ""
}

func (u *usageSeen) set(name []byte, n int) {
	switch string(name) {
	case "prompt_tokens", "input_tokens", "promptTokenCount":
		u.latest.Prompt, u.found = n, true
	case "cached_tokens", "cachedContentTokenCount":
		u.latest.Cached = n
	case "cache_read_input_tokens":
		u.latest.Cached, u.cacheReads = n, true
	case "cache_creation_input_tokens":
		u.cacheWrites = n
	case "completion_tokens", "output_tokens", "candidatesTokenCount":
		u.latest.Output = n
	case "reasoning_tokens":
		u.latest.Reasoning = n
	case "thoughtsTokenCount":
		u.thoughts = n
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
