package prompt

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// field is a member of the request that counts.
type field uint8

const (
	fieldOther field = iota // any other member
	fieldModel              // weighs nothing, but a body that names two models is read in two ways
	fieldStream
	fieldN
	fieldLoraPath
	fieldCacheSalt
	fieldChatTemplate
	fieldTemplateOptions
	fieldReasoning
	fieldReasoningEffort
	fieldPromptLogprobs
	fieldLogprobs
	fieldEcho
	fieldAnthropicVersion
	fieldPreviousResponse
	// The limits, most binding last: max_tokens is the old name of max_completion_tokens.
	fieldMaxTokens
	fieldMaxOutputTokens
	fieldMaxCompletionTokens
	// From here on the value is text for the model.
	fieldMessages
	fieldPrompt
	fieldInput
	fieldSystem
	fieldInstructions
	fieldSuffix
	fieldQuery
	fieldDocuments
	fieldText1
	fieldText2
	fieldTools // printed whole by chat templates, keys included
	fieldCount
)

// fieldOf returns the field with the given name.
func fieldOf(name []byte) field {
	switch string(name) {
	case "model":
		return fieldModel
	case "stream":
		return fieldStream
	case "n":
		return fieldN
	case "lora_path":
		return fieldLoraPath
	case "cache_salt":
		return fieldCacheSalt
	case "anthropic_version":
		return fieldAnthropicVersion
	case "previous_response_id":
		return fieldPreviousResponse
	case "max_tokens":
		return fieldMaxTokens
	case "max_output_tokens":
		return fieldMaxOutputTokens
	case "max_completion_tokens":
		return fieldMaxCompletionTokens
	case "messages":
		return fieldMessages
	case "prompt":
		return fieldPrompt
	case "input":
		return fieldInput
	case "system":
		return fieldSystem
	case "instructions":
		return fieldInstructions
	case "suffix":
		return fieldSuffix
	case "query":
		return fieldQuery
	case "documents":
		return fieldDocuments
	case "text_1":
		return fieldText1
	case "text_2":
		return fieldText2
	case "tools":
		return fieldTools
	}
	return optionOf(name)
}

// optionOf returns the field with the given name, of those that decide how a prompt is printed or computed.
func optionOf(name []byte) field {
	switch string(name) {
	case "chat_template":
		return fieldChatTemplate
	case "chat_template_kwargs":
		return fieldTemplateOptions
	case "reasoning":
		return fieldReasoning
	case "reasoning_effort":
		return fieldReasoningEffort
	case "prompt_logprobs":
		return fieldPromptLogprobs
	case "logprobs":
		return fieldLogprobs
	case "echo":
		return fieldEcho
	}
	return fieldOther
}

// longestField is the length of the longest name that fieldOf knows.
const longestField = len("max_completion_tokens")

// isMedia tells whether a key inside the prompt stands for something that the model does not read as text: an image,
// a sound or a file by its data or address, or a word of the protocol.
func isMedia(key []byte) bool {
	switch string(key) {
	case "url", "data", "image", "images", "image_url", "audio", "audio_url", "video_url", "file_url", "file_data", "file_id",
		"b64_json", "media_type", "format", "detail", "type", "id", "call_id", "tool_call_id", "tool_use_id":
		return true
	}
	return false
}

// fieldSet is a set of fields.
type fieldSet uint32

func (f fieldSet) has(x field) bool { return f>>x&1 != 0 }

// key reads the key at pos and the colon behind it.
func (s *scanner) key() status {
	s.values++
	if st := s.str(); st != proceed {
		return st
	}
	name := s.body[s.begin : s.pos-1]
	if s.depth == 1 {
		s.media, s.from = false, 0
		if s.saved > 0 {
			var buffer [longestField + utf8.UTFMax]byte
			name = unescape(buffer[:0], name, longestField)
		}
		if s.field = fieldOf(name); s.field != fieldOther {
			if s.seen.has(s.field) {
				return ambiguous
			}
			s.seen |= 1 << s.field
		}
	} else if s.field >= fieldMessages {
		s.media = isMedia(name)
	}
	c, st := s.next()
	if st != proceed {
		return st
	}
	if c != ':' {
		return malformed
	}
	s.pos++
	return proceed
}

// text reads a string that is a value. Of one that has run out, what is there counts as text.
func (s *scanner) text() status {
	st := s.str()
	end := s.pos - 1
	if st == ranOut {
		end = s.pos
	} else if st != proceed {
		return st
	}
	content := s.body[s.begin:end]
	if s.field >= fieldMessages && s.field != fieldTools && !s.media && !isDataURL(content) {
		s.info.TextBytes += len(content) - s.saved
	}
	return st
}

// isDataURL recognises media that are written out inside a string.
func isDataURL(s []byte) bool {
	const longestType = 128 // bytes of type and parameters in front of the data
	return bytes.HasPrefix(s, []byte("data:")) && bytes.Contains(s[:min(len(s), longestType)], []byte(";base64,"))
}

// onNumber takes the value of a field, or a token of a prompt.
func (s *scanner) onNumber(text []byte) {
	switch s.field {
	case fieldPrompt, fieldInput:
		if s.depth > 1 && !s.inObject() {
			s.info.TokenIDs++
		}
	case fieldMaxTokens, fieldMaxOutputTokens, fieldMaxCompletionTokens:
		if s.depth == 1 {
			s.limits[s.field-fieldMaxTokens] = count(text)
		}
	case fieldN:
		if s.depth == 1 {
			s.info.N = count(text)
		}
	}
}

// count reads a number of things. One that is no whole number counts as its whole part, a negative one as 0, and so
// does one with more digits than a number of things can need.
func count(text []byte) int {
	if len(text) > 32 {
		return 0
	}
	f, err := strconv.ParseFloat(string(text), 64)
	switch {
	case err != nil && f == 0, f < 0:
		return 0
	case f > maxCount:
		return maxCount
	}
	return int(f)
}

// endField settles a field whose value was read, or has run out.
func (s *scanner) endField() {
	if s.field == fieldTools && s.from > 0 {
		s.info.TextBytes += s.pos - s.from
	}
	if s.field != fieldOther && s.from > 0 {
		s.parts.spans[s.field] = span{s.from, s.pos}
	}
	s.field, s.from = fieldOther, 0
}

// maxTokens returns the limit that binds when several are given.
func (s *scanner) maxTokens() int {
	for i := len(s.limits) - 1; i >= 0; i-- {
		if s.limits[i] > 0 {
			return s.limits[i]
		}
	}
	return 0
}

// shape tells the API by the fields that were seen.
func (s *scanner) shape() Shape {
	has := s.seen.has
	switch {
	case has(fieldMessages) && (has(fieldSystem) || has(fieldAnthropicVersion)):
		return Anthropic
	case has(fieldMessages):
		return Chat
	case has(fieldPrompt):
		return Completions
	case has(fieldDocuments), has(fieldText1):
		return Rerank
	case has(fieldInput) && (s.nested || has(fieldInstructions) || has(fieldMaxOutputTokens) || has(fieldPreviousResponse)):
		return Responses
	case has(fieldInput):
		return Embeddings
	}
	return Unknown
}

// uncached tells by vLLM's rules whether the engine computes all of the prompt, because the likelihoods of its tokens are asked for.
// Its chat completions take echo for that by itself.
func (s *scanner) uncached() bool {
	return s.firstOf(fieldPromptLogprobs) != 'n' || s.firstOf(fieldEcho) == 't' && (s.seen.has(fieldMessages) || s.firstOf(fieldLogprobs) != 'n')
}

// firstOf returns the first byte of the value of a field, that of null if there is none.
func (s *scanner) firstOf(f field) byte {
	if value := s.parts.of(s.body, f); len(value) > 0 {
		return value[0]
	}
	return 'n'
}

// unescape appends the text of a valid string content to dst and stops behind limit bytes.
func unescape(dst, content []byte, limit int) []byte {
	for len(content) > 0 && len(dst) <= limit {
		if content[0] != '\\' {
			dst = append(dst, content[0])
			content = content[1:]
			continue
		}
		c := content[1]
		if c != 'u' {
			dst = append(dst, simpleEscape(c))
			content = content[2:]
			continue
		}
		r, length := codePoint(content)
		content = content[length:]
		dst = utf8.AppendRune(dst, r)
	}
	return dst
}

// codePoint returns the character that the \u escape, or the pair of them, stands for that text begins with, and its length.
func codePoint(text []byte) (r rune, length int) {
	const unit = len(`\u0000`)
	r = rune(codeUnit(text))
	if !utf16.IsSurrogate(r) {
		return r, unit
	}
	if len(text) >= 2*unit && text[unit] == '\\' && text[unit+1] == 'u' {
		if pair := utf16.DecodeRune(r, rune(codeUnit(text[unit:]))); pair != utf8.RuneError {
			return pair, 2 * unit
		}
	}
	return utf8.RuneError, unit
}

// simpleEscape returns the character that a backslash and c stand for, 0 when they stand for none.
func simpleEscape(c byte) byte { return simpleEscapes[c] }

// simpleEscapes is a table, because texts may have many.
var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}
