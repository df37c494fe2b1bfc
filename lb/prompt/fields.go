package prompt

import (
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
	fieldPreviousResponse // the server puts an earlier response, with what that answered, in front of the prompt
	// The limits; max_tokens is also the old name of max_completion_tokens.
	fieldMaxTokens
	fieldMaxOutputTokens
	fieldMaxCompletionTokens
	// From here to the last one the value is text for the model. Their numbers are part of the keys of prompts.
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
	fieldText
	fieldInputIDs
	fieldInputs
	fieldTextInput
	fieldContents
	fieldConversation // as fieldPreviousResponse
	// Objects with options, and the limits that stand in them.
	fieldParameters
	fieldSamplingParams
	fieldGenerationConfig
	fieldParameterNewTokens
	fieldParameterTokens
	fieldSamplingTokens
	fieldGenerationTokens
	fieldCount
)

// isText says whether the value of the field is text for the model.
func (f field) isText() bool { return f >= fieldMessages && f <= fieldContents }

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
	case "conversation":
		return fieldConversation
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
	case "system", "systemInstruction", "system_instruction":
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
	return nativeOf(name)
}

// nativeOf returns the field with the given name, of those that only engines' own APIs have, and Gemini's.
func nativeOf(name []byte) field {
	switch string(name) {
	case "text":
		return fieldText
	case "input_ids":
		return fieldInputIDs
	case "inputs":
		return fieldInputs
	case "text_input":
		return fieldTextInput
	case "contents":
		return fieldContents
	case "parameters":
		return fieldParameters
	case "sampling_params":
		return fieldSamplingParams
	case "generationConfig", "generation_config":
		return fieldGenerationConfig
	}
	return optionOf(name)
}

// limitIn returns the limit on the output that the given name stands for in an object with options.
func limitIn(options field, name []byte) field {
	switch {
	case options == fieldParameters && string(name) == "max_new_tokens":
		return fieldParameterNewTokens
	case options == fieldParameters && string(name) == "max_tokens":
		return fieldParameterTokens
	case options == fieldSamplingParams && string(name) == "max_new_tokens":
		return fieldSamplingTokens
	case options == fieldGenerationConfig && (string(name) == "maxOutputTokens" || string(name) == "max_output_tokens"):
		return fieldGenerationTokens
	}
	return fieldOther
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

// maxFieldName is the length of the longest name that fieldOf knows.
const maxFieldName = len("max_completion_tokens")

// key reads the key at pos and the colon behind it.
func (s *scanner) key() status {
	s.values++
	if st := s.str(); st != proceed {
		return st
	}
	name := s.body[s.stringStart : s.pos-1]
	switch {
	case s.depth == 1:
		s.inMedia, s.valueStart = false, 0
		name = s.fieldName(name)
		s.field = fieldOf(name)
		s.mediaKey = s.field == fieldOther && isMediaField(name)
		if !s.markSeen(s.field) {
			return ambiguous
		}
	case s.depth == 2 && s.field >= fieldParameters:
		if s.limit = limitIn(s.field, s.fieldName(name)); !s.markSeen(s.limit) {
			return ambiguous
		}
	case s.field.isText():
		s.inMedia = isMedia(name)
		s.mediaKey = s.field != fieldTools && isMediaContent(name)
		s.isType = string(name) == "type"
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

// fieldName returns the name that a key stands for, the beginning of it if it is longer than any that counts.
func (s *scanner) fieldName(key []byte) []byte {
	if s.escapeBytes == 0 {
		return key
	}
	return unescape(s.name[:0], key, maxFieldName)
}

// markSeen notes that a field is there. It returns false if it was there before.
func (s *scanner) markSeen(f field) bool {
	if f == fieldOther {
		return true
	}
	before := s.seen
	s.seen |= 1 << f
	return !before.has(f)
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
	s.noteMedia()
	if !s.field.isText() || s.field == fieldTools {
		return st
	}
	content := s.body[s.stringStart:end]
	if s.isType && isMediaType(content) {
		s.info.Media = true
	}
	switch {
	case isDataURL(content):
		s.info.Media = true
	case !s.inMedia:
		s.texts[s.field-fieldMessages] += len(content) - s.escapeBytes
	}
	return st
}

// onNumber takes the value of a field, or a token of a prompt.
func (s *scanner) onNumber(text []byte) {
	switch s.field {
	case fieldPrompt, fieldInput, fieldInputIDs:
		if s.depth > 1 && !s.inObject() {
			s.ids[s.field-fieldMessages]++
		}
	case fieldMaxTokens, fieldMaxOutputTokens, fieldMaxCompletionTokens:
		if s.depth == 1 {
			s.limits[s.field] = count(text)
		}
	case fieldParameters, fieldSamplingParams, fieldGenerationConfig:
		if s.depth == 2 {
			s.limits[s.limit] = count(text)
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
	if s.field == fieldTools && s.valueStart > 0 {
		s.texts[fieldTools-fieldMessages] += s.pos - s.valueStart
	}
	if s.field != fieldOther && s.valueStart > 0 {
		s.parts.spans[s.field] = span{s.valueStart, s.pos}
	}
	s.field, s.valueStart = fieldOther, 0
}

// bypassesCache tells by vLLM's rules whether the engine computes all of the prompt, because the likelihoods of its tokens are asked for.
// Its chat completions take echo for that by itself.
func (s *scanner) bypassesCache() bool {
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
