package jsontext

import (
	"bytes"
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

// String checks the string whose opening quote is at at, and returns the index after its closing quote. If it is
// invalid, that is the index of the control character or of the escape that makes it so; if it is cut off, that of an
// incomplete escape, or len(text). Excess is by how many bytes its escapes make it longer than its text, 0 if and only
// if it has none; each half of a surrogate pair counts as half of its 4 bytes, also where the other half is missing.
func String(text []byte, at int) (end, excess int, st Status) {
	for i := at + 1; ; {
		for ; len(text)-i >= 8; i += 8 {
			if m := special(binary.LittleEndian.Uint64(text[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		for i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= ' ' {
			i++ // the last few bytes of the text
		}
		if i >= len(text) {
			return len(text), excess, Cut
		}
		switch c := text[i]; {
		case c == '"':
			return i + 1, excess, OK
		case c < ' ':
			return i, excess, Invalid
		case i+1 < len(text) && SimpleEscape(text[i+1]) != 0:
			for i+1 < len(text) && text[i] == '\\' && SimpleEscape(text[i+1]) != 0 {
				i += 2 // almost all escapes are line ends and quotes
				excess++
				if i < len(text) && text[i] != '\\' && text[i] != '"' && text[i] >= ' ' {
					i++
				}
			}
			continue
		}
		var n int
		i, n, st = codeUnits(text, i)
		if excess += n; st != OK {
			return i, excess, st
		}
	}
}

// codeUnits checks a run of \u escapes, of which whole texts consist in some languages. It returns the index after it,
// or of an escape that is invalid or cut off, and how much longer the run is than its characters.
func codeUnits(text []byte, i int) (end, excess int, st Status) {
	for len(text)-i >= unitLen && text[i] == '\\' && text[i+1] == 'u' {
		unit := codeUnit(text[i:])
		if unit < 0 {
			return i, excess, Invalid
		}
		i += unitLen
		excess += unitLen - encodedLen(unit)
	}
	if i < len(text) && text[i] != '\\' || i+1 < len(text) && SimpleEscape(text[i+1]) != 0 {
		return i, excess, OK
	}
	for k, c := range text[min(i+1, len(text)):] {
		if k == 0 && c != 'u' || k > 0 && hexValue[c] > 15 {
			return i, excess, Invalid
		}
	}
	return i, excess, Cut
}

// SkipString returns the content of the string whose opening quote is at at, whether it has escapes, and the index
// after its closing quote. If the text ends within the string, the content is the rest of the text: its last bytes may
// be half an escape. What [String] finds invalid is skipped like other content.
func SkipString(text []byte, at int) (content []byte, escaped bool, end int) {
	end, excess, st := String(text, at)
	escaped = excess > 0
	for st != OK {
		if st == Cut {
			return text[at+1:], escaped || end < len(text), len(text)
		}
		if text[end] == '\\' {
			end, escaped = end+1, true
		}
		end, excess, st = String(text, end)
		escaped = escaped || excess > 0
	}
	return text[at+1 : end-1], escaped, end
}

// OpeningQuote returns the index of the opening quote of the string whose closing quote follows the text, for a search
// from the end. It is -1 if there is none or, in a text whose beginning was dropped (cut), if it is unknown.
func OpeningQuote(text []byte, cut bool) int {
	for {
		quote := bytes.LastIndexByte(text, '"')
		if quote < 0 {
			return -1
		}
		first := quote // of the backslashes before it
		for first > 0 && text[first-1] == '\\' {
			first--
		}
		switch {
		case first == 0 && cut:
			return -1
		case (quote-first)%2 == 0:
			return quote
		}
		text = text[:quote]
	}
}

// StringRest returns the index after the closing quote of a string that text is inside of from at on, which is not
// within an escape; ended is false if the text ends before. half reports that it ends with a backslash whose escape
// follows. It checks nothing, for a text that comes in parts.
func StringRest(text []byte, at int) (end int, ended, half bool) {
	for i := at; ; {
		for ; len(text)-i >= 8; i += 8 {
			w := binary.LittleEndian.Uint64(text[i:])
			q, b := w^quotes, w^slash
			if m := ((q-ones)&^q | (b-ones)&^b) & highs; m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		for i < len(text) && text[i] != '"' && text[i] != '\\' {
			i++
		}
		switch {
		case i >= len(text):
			return len(text), false, false
		case text[i] == '"':
			return i + 1, true, false
		case i+1 == len(text):
			return len(text), false, true
		}
		i += 2
	}
}
