package prompt

import (
	"unicode/utf8"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// maxValues is the number of keys and values that are parsed. They cost more time than the bytes that they take in a
// body; the rest counts as text. It is more than the keys and values on the way to maxDepth.
const maxValues = 20 << 10

// idsPerValue is how many numbers in a list cost as much as another value.
const idsPerValue = 4

// maxDepth is the maximum nesting of values, the same as in encoding/json.
const maxDepth = 10000

// status is the result of a step.
type status uint8

const (
	proceed   = status(jsontext.OK)
	ranOut    = status(jsontext.Cut) // the body ends before the value
	malformed = status(jsontext.Invalid)
)

const (
	done      = malformed + 1 + iota // the request's closing bracket was read
	tooMany                          // maxValues is reached
	ambiguous                        // a relevant key is there twice
)

// scanner is one pass over a body. It stores one bit per level instead of a stack, so that nesting costs neither calls
// nor memory.
type scanner struct {
	body        []byte
	pos         int
	depth       int                     // of the innermost object or array; the request itself is 1
	objects     [maxDepth/64 + 1]uint64 // bit d: level d is an object
	values      int                     // keys and values so far
	escapeBytes int                     // by how many bytes the latest string's escapes make it longer than its text

	info         Info
	parts        Parts
	texts        [fieldContents - fieldMessages + 1]int // bytes of text in each text field
	ids          [fieldContents - fieldMessages + 1]int // tokens given as numbers in each text field
	limits       [fieldCount]int                        // values of the fields that limit the output
	seen         fieldSet
	field        field // the current member of the request
	limit        field // the current member of that, if it is a limit
	valueStart   int   // start of the field's value, 0 before it
	inMedia      bool  // the latest key below the request's own is not for text
	mediaKey     bool  // it is for media, if it has a value
	isType       bool  // it is the type of a part
	isRole       bool  // it is the role of a message
	inputObjects bool  // input contains objects
	refers       bool  // one of them stands for an item that the server stores
	name         [maxEscapedName + utf8.UTFMax]byte
}

// run scans the whole body.
func (s *scanner) run() status {
	c, st := s.next()
	if st == proceed && c != '{' {
		st = malformed
	}
	if st == proceed {
		st = s.open(true)
	}
	opened := true
	for st == proceed {
		if s.values++; s.values > maxValues {
			return tooMany
		}
		if opened {
			opened, st = s.first()
		} else {
			opened, st = s.more()
		}
	}
	if st != done {
		return st
	}
	if _, st = s.next(); st != ranOut {
		return malformed // something follows the request
	}
	return done
}

// first reads what follows an opening bracket: a member or the closing bracket. It reports whether it opened a level.
func (s *scanner) first() (opened bool, st status) {
	c, st := s.next()
	if st != proceed {
		return false, st
	}
	if c == s.closing() {
		return false, s.close()
	}
	return s.member(c)
}

// more reads what follows a value: a comma and another member, or the closing bracket.
func (s *scanner) more() (opened bool, st status) {
	if s.depth == 1 {
		s.endField()
	}
	c, st := s.next()
	if st != proceed {
		return false, st
	}
	if c == s.closing() {
		return false, s.close()
	}
	if c != ',' {
		return false, malformed
	}
	s.pos++
	if c, st = s.next(); st != proceed {
		return false, st
	}
	return s.member(c)
}

// member reads a value, in an object with its key. c is the first byte.
func (s *scanner) member(c byte) (opened bool, st status) {
	if s.inObject() {
		if c != '"' {
			return false, malformed
		}
		if st = s.key(); st != proceed {
			return false, st
		}
		if c, st = s.next(); st != proceed {
			return false, st
		}
		if s.depth == 1 {
			s.valueStart = s.pos
		}
	}
	switch c {
	case '{':
		s.inputObjects = s.inputObjects || s.field == fieldInput
		s.noteMedia()
		return true, s.open(true)
	case '[':
		return true, s.open(false)
	case '"':
		return false, s.text()
	case 't':
		return false, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return false, s.literal("null")
	}
	if !s.inObject() {
		s.tokens()
	}
	return false, s.number()
}

// tokens skips the whole numbers of a prompt given as tokens, with their commas, up to the last number in a row.
func (s *scanner) tokens() {
	body, at, n := s.body, s.pos, 0
	for {
		i := jsontext.Digits(body, at)
		if i == at || i-at > 1 && body[at] == '0' || len(body)-i < 3 || body[i] != ',' {
			break
		}
		if i++; body[i] == ' ' {
			i++
		}
		if body[i]-'0' > 9 {
			break
		}
		at = i
		n++
	}
	switch s.field {
	case fieldPrompt, fieldInput, fieldInputIDs:
		s.ids[s.field-fieldMessages] += n
	}
	s.values += n / idsPerValue
	s.pos = at
}

// str skips a string, and sets escapeBytes. pos is at its opening quote.
func (s *scanner) str() (st jsontext.Status) {
	s.pos, s.escapeBytes, st = jsontext.String(s.body, s.pos)
	return st
}

// literal skips true, false or null.
func (s *scanner) literal(word string) status {
	var st jsontext.Status
	if s.pos, st = jsontext.Literal(s.body, s.pos, word); st == jsontext.OK && s.depth == 1 && s.field == fieldStream {
		s.info.Stream = word == "true"
	}
	return status(st)
}

// number skips a number. One at the very end of the body counts as cut off, since its last digits may be missing.
func (s *scanner) number() status {
	begin := s.pos
	end, whole, st := jsontext.Number(s.body, begin)
	if !whole {
		s.values++ // takes as long as two whole numbers
	}
	switch s.pos = end; {
	case st != jsontext.OK:
		return status(st)
	case end == len(s.body):
		return ranOut
	}
	s.onNumber(s.body[begin:end])
	return proceed
}

// next skips white space and returns the next byte without consuming it.
func (s *scanner) next() (byte, status) {
	for ; s.pos < len(s.body); s.pos++ {
		if c := s.body[s.pos]; !jsontext.IsSpace(c) {
			return c, proceed
		}
	}
	return 0, ranOut
}

func (s *scanner) open(object bool) status {
	s.pos++
	if s.depth++; s.depth > maxDepth {
		return malformed
	}
	bit := uint64(1) << (s.depth & 63)
	if object {
		s.objects[s.depth>>6] |= bit
	} else {
		s.objects[s.depth>>6] &^= bit
	}
	return proceed
}

func (s *scanner) close() status {
	s.pos++
	s.inMedia, s.mediaKey, s.isType, s.isRole = false, false, false, false
	if s.depth--; s.depth == 0 {
		return done
	}
	return proceed
}

func (s *scanner) inObject() bool { return s.objects[s.depth>>6]>>(s.depth&63)&1 != 0 }

// closing returns the bracket that ends the current level.
func (s *scanner) closing() byte {
	if s.inObject() {
		return '}'
	}
	return ']'
}
