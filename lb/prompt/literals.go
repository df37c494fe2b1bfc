package prompt

import (
	"encoding/binary"
	"math/bits"
)

// Words of eight equal bytes, to examine eight bytes of a string at once.
const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	quotes = '"' * ones
	slash  = '\\' * ones
	blanks = ' ' * ones
)

// special returns a word whose lowest set bit is in the first byte of w that is a quote, a backslash or a control
// character; 0 if there is none. It is the test for a zero byte of "Bit Twiddling Hacks" (Anderson). Borrows make
// higher bits unreliable, never the lowest one.
func special(w uint64) uint64 {
	q, b := w^quotes, w^slash
	return ((q-ones)&^q | (b-ones)&^b | (w-blanks)&^w) & highs
}

// str skips a string, and sets stringStart and escapeBytes. pos is at its opening quote.
func (s *scanner) str() status {
	body, i := s.body, s.pos+1
	s.stringStart, s.escapeBytes = i, 0
	for {
		for len(body)-i >= 8 {
			m := special(binary.LittleEndian.Uint64(body[i:]))
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(body) && body[i] != '"' && body[i] != '\\' && body[i] >= ' ' {
			i++ // the last few bytes of the body
		}
		if i == len(body) {
			s.pos = i
			return ranOut
		}
		switch c := body[i]; {
		case c == '"':
			s.pos = i + 1
			return proceed
		case c < ' ':
			return malformed
		case i+1 < len(body) && simpleEscape(body[i+1]) != 0:
			for i+1 < len(body) && body[i] == '\\' && simpleEscape(body[i+1]) != 0 {
				i += 2 // almost all escapes are line ends and quotes
				s.escapeBytes++
				if i < len(body) && body[i] != '\\' && body[i] != '"' && body[i] >= ' ' {
					i++
				}
			}
			continue
		}
		var st status
		if i, st = s.codeUnits(i); st != proceed {
			return st
		}
	}
}

// codeUnits skips a run of \u escapes, of which whole texts consist in some languages, and adds their excess length
// over the characters to escapeBytes.
func (s *scanner) codeUnits(i int) (int, status) {
	body := s.body
	for len(body)-i >= len(`\u0000`) && body[i] == '\\' && body[i+1] == 'u' {
		unit := codeUnit(body[i:])
		if unit < 0 {
			return i, malformed
		}
		i += len(`\u0000`)
		s.escapeBytes += len(`\u0000`) - encodedLen(unit)
	}
	if i < len(body) && body[i] != '\\' || i+1 < len(body) && simpleEscape(body[i+1]) != 0 {
		return i, proceed
	}
	for k, c := range body[min(i+1, len(body)):] {
		if k == 0 && c != 'u' || k > 0 && hexValue[c] > 15 {
			return i, malformed
		}
	}
	s.pos = len(body)
	return i, ranOut
}

// codeUnit reads the \uXXXX at the beginning of the text; it is negative if these are not four hexadecimal digits.
func codeUnit(text []byte) int {
	a, b, c, d := hexValue[text[2]], hexValue[text[3]], hexValue[text[4]], hexValue[text[5]]
	if a|b|c|d > 15 {
		return -1
	}
	return int(a)<<12 | int(b)<<8 | int(c)<<4 | int(d)
}

// hexValue is the value of each hexadecimal digit, 0xff for all other bytes.
var hexValue = func() (table [256]uint8) {
	for i := range table {
		table[i] = 0xff
	}
	for i := range 16 {
		table["0123456789abcdef"[i]] = uint8(i)
		table["0123456789ABCDEF"[i]] = uint8(i)
	}
	return table
}()

// encodedLen returns the length of a UTF-16 unit in UTF-8, where each half of a surrogate pair counts for half of its
// four bytes.
func encodedLen(unit int) int {
	switch {
	case unit < 0x80:
		return 1
	case unit < 0x800, unit >= 0xd800 && unit < 0xe000:
		return 2
	}
	return 3
}

// literal skips true, false or null.
func (s *scanner) literal(word string) status {
	rest := s.body[s.pos:]
	if len(rest) < len(word) {
		if string(rest) != word[:len(rest)] {
			return malformed
		}
		s.pos = len(s.body)
		return ranOut
	}
	if string(rest[:len(word)]) != word {
		return malformed
	}
	s.pos += len(word)
	if s.depth == 1 && s.field == fieldStream {
		s.info.Stream = word == "true"
	}
	return proceed
}

// number skips a number. One at the very end of the body counts as cut off, since its last digits may be missing.
func (s *scanner) number() status {
	begin, i, body := s.pos, s.pos, s.body
	if body[i] == '-' {
		i++
	}
	whole := i
	if i = digits(body, i); i == whole && i < len(body) || i > whole+1 && body[whole] == '0' {
		return malformed
	}
	if i < len(body) && (body[i] == '.' || body[i]|0x20 == 'e') {
		s.values++ // takes as long as two whole numbers
	}
	if i < len(body) && body[i] == '.' {
		i++
		fraction := i
		if i = digits(body, i); i == fraction && i < len(body) {
			return malformed
		}
	}
	if i < len(body) && body[i]|0x20 == 'e' {
		if i++; i < len(body) && (body[i] == '+' || body[i] == '-') {
			i++
		}
		exponent := i
		if i = digits(body, i); i == exponent && i < len(body) {
			return malformed
		}
	}
	s.pos = i
	if i == len(body) {
		return ranOut
	}
	s.onNumber(body[begin:i])
	return proceed
}

// digits returns the index of the first byte from i on that is not a digit.
func digits(body []byte, i int) int {
	for i < len(body) && body[i]-'0' <= 9 {
		i++
	}
	return i
}
