package answer

import (
	"bytes"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// findUsage returns where the object with the usage begins in an event or answer, -1 if there is none. It searches
// backwards from the end. cut: the beginning of the text was dropped.
func findUsage(text []byte, cut, isEvent bool) int {
	text = bytes.TrimRight(text, " \t\r\n")
	s := usageSearch{text: text, found: -1, nested: -1, top: 1, isEvent: isEvent}
	if bytes.HasSuffix(text, []byte("]")) {
		s.top = 2
	}
	for i, depth := len(text)-1, 0; i >= 0; i-- {
		switch text[i] {
		case '}', ']':
			depth++
		case '{', '[':
			if depth--; depth > 0 {
				continue
			}
			if !startsPart(text[:i]) {
				return -1 // truncated
			}
			return s.found
		case '"':
			begin := jsontext.OpeningQuote(text[:i], cut)
			if begin >= 0 {
				s.key(begin, i, depth)
			}
			i = begin
		}
	}
	switch {
	case !cut:
		return -1 // truncated
	case s.found < 0 && isEvent:
		return s.nested // the event is so long that the name of its parent was dropped
	}
	return s.found
}

// usageSearch is the state of the search.
type usageSearch struct {
	text    []byte
	top     int // depth of the answer's members
	isEvent bool
	found   int // index of the usage, -1 before it is known
	nested  int // index of a usage that counts if its parent is the event's response or message, -1 for none
}

// key handles the string between two quotes, if it is a key whose value is an object.
func (s *usageSearch) key(begin, end, depth int) {
	if depth < s.top || depth > s.top+1 {
		return
	}
	name, value := s.text[begin+1:end], jsontext.AfterKey(s.text, end+1)
	if value < 0 {
		return
	}
	isObject := value < len(s.text) && s.text[value] == '{'
	if depth > s.top {
		if isObject && s.nested < 0 && string(name) == "usage" {
			s.nested = value
		}
		return
	}
	inner := s.nested
	s.nested = -1
	if s.found >= 0 || !isObject {
		return
	}
	switch string(name) {
	case "usage", "meta_info", "usageMetadata":
		s.found = value
	case "response", "message":
		if s.isEvent {
			s.found = inner
		}
	}
}

// startsPart reports whether a value after the text before is a whole event or answer, not a part of one: it follows
// the field name of the event's line, or nothing, or another answer.
func startsPart(before []byte) bool {
	before = bytes.TrimRight(before, " \t\r\n")
	if len(before) == 0 || bytes.HasSuffix(before, []byte("data:")) {
		return true
	}
	last := before[len(before)-1]
	return last == '}' || last == ']'
}
