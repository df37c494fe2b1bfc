package prompt

import (
	"strconv"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// key reads the key at pos and its colon.
func (s *scanner) key() status {
	s.values++
	begin := s.pos + 1
	if st := s.str(); st != jsontext.OK {
		return status(st)
	}
	name := s.body[begin : s.pos-1]
	switch {
	case s.depth == 1:
		if !s.startField(s.fieldName(name)) {
			return ambiguous
		}
	case s.depth == 2 && s.field >= fieldParameters:
		if s.limit = limitIn(s.field, s.fieldName(name)); !s.markSeen(s.limit) {
			return ambiguous
		}
	case s.field.isText():
		kind := kindOfKey(name)
		s.inMedia = kind&keyNotText != 0
		s.mediaKey = s.field != fieldTools && kind&keyContent != 0
		s.isType = string(name) == "type"
		s.isRole = s.depth == messageDepth && string(s.fieldName(name)) == "role"
	}
	return s.colon()
}

// messageDepth is the nesting of a message: in the list of a member of the request.
const messageDepth = 3

// colon reads the colon after a key.
func (s *scanner) colon() status {
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

// startField starts a member of the request. It returns false for a relevant one that the body has twice.
func (s *scanner) startField(name []byte) bool {
	s.inMedia, s.valueStart = false, 0
	s.field = fieldOf(name)
	s.mediaKey = s.field.isMedia()
	return s.markSeen(s.field)
}

// fieldName returns the unescaped key; of a key longer than maxFieldName at least its beginning.
func (s *scanner) fieldName(key []byte) []byte {
	if s.escapeBytes == 0 {
		return key
	}
	return jsontext.AppendUnescaped(s.name[:0], key[:min(len(key), maxEscapedName)])
}

// markSeen records that the body has a field. It returns false if it was recorded before.
func (s *scanner) markSeen(f field) bool {
	if f == fieldOther {
		return true
	}
	before := s.seen
	s.seen |= 1 << f
	return !before.has(f)
}

// text reads a string that is a value. If the body ends in it, its beginning counts.
func (s *scanner) text() status {
	begin := s.pos + 1
	st := status(s.str())
	end := s.pos - 1
	switch st {
	case proceed:
		s.parts.long.note(begin-1, s.pos, s.escapeBytes > 0)
	case ranOut:
		end = s.pos // an escape that is cut off is no text
	default:
		return st
	}
	s.noteMedia()
	if !s.field.isText() || s.field == fieldTools {
		return st
	}
	content := s.body[begin:end]
	if s.isRole {
		switch string(s.fieldName(content)) {
		case "assistant", "model":
			s.info.Answered = true
		}
	}
	if s.isType {
		s.info.Media = s.info.Media || isMediaType(content)
		s.refers = s.refers || string(content) == "item_reference"
	}
	switch {
	case isDataURL(content):
		s.info.Media = true
	case !s.inMedia:
		s.texts[s.field-fieldMessages] += len(content) - s.escapeBytes
	}
	return st
}

// noteMedia is called for a string or an object. There are media if it is the value of a media key, or in a list that
// is.
func (s *scanner) noteMedia() {
	s.info.Media = s.info.Media || s.mediaKey
	s.mediaKey = false
}

// onNumber records the value of a field, or a token of a prompt.
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
		if s.depth == 2 && s.limit != fieldParameterAdapter {
			s.limits[s.limit] = count(text)
		}
	case fieldN:
		if s.depth == 1 {
			s.info.N = count(text)
		}
	}
}

// maxCount bounds the numbers that are read, so that their sums and products cannot overflow.
const maxCount = 1 << 30

// count reads a number. A fraction is rounded down; a negative number, or one with more than 32 characters, is 0.
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

// endField completes a field whose value was read, or in which the body ended.
func (s *scanner) endField() {
	if s.field == fieldTools && s.valueStart > 0 {
		s.texts[fieldTools-fieldMessages] += s.pos - s.valueStart
	}
	if s.field != fieldOther && s.valueStart > 0 {
		s.parts.spans[s.field] = span{s.valueStart, s.pos}
	}
	s.field, s.valueStart = fieldOther, 0
}

// bypassesCache reports whether the engine computes the whole prompt, because the request is for the log probabilities
// of its tokens. The rules are vLLM's; in chat completions, echo alone has that effect.
func (s *scanner) bypassesCache() bool {
	echo := s.firstOf(fieldEcho) == 't' && (s.seen.has(fieldMessages) || s.firstOf(fieldLogprobs) != 'n')
	return s.firstOf(fieldPromptLogprobs) != 'n' || echo
}

// firstOf returns the first byte of the value of a field, that of null if it is absent.
func (s *scanner) firstOf(f field) byte {
	if value := s.parts.of(s.body, f); len(value) > 0 {
		return value[0]
	}
	return 'n'
}
