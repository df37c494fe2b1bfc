// Package jsontext is the one scanner of JSON text: strings and their escapes, numbers, literals, and the way over
// values that are not needed. It works on byte slices and indexes, allocates nothing but what it is given to append
// to, and builds no values: what a reader needs of a text differs too much, and is its own.
//
// There are two kinds of functions. [String], [Number] and [Literal] check the grammar of RFC 8259, for text from
// outside, and distinguish text that is invalid from text that ends too early, such as the beginning of a body that has
// not arrived completely. All others assume that the text is valid but may end anywhere; for invalid text their results
// are unspecified, but they end, and never read outside of it.
//
// Bytes of strings are not checked for UTF-8: they are passed on as they are.
package jsontext

// Status is the result of a check.
type Status uint8

const (
	OK      Status = iota // the token is valid and complete
	Cut                   // the text ends within the token, which is valid so far
	Invalid               // no continuation of the text makes it valid
)

// IsSpace reports whether b is white space between tokens.
func IsSpace(b byte) bool { return b <= ' ' && (b == ' ' || b == '\n' || b == '\t' || b == '\r') }

// Space returns the index of the first byte from at on that is not white space, len(text) if there is none.
func Space(text []byte, at int) int {
	for at < len(text) && IsSpace(text[at]) {
		at++
	}
	return at
}

// Literal checks that the text from at on begins with a word: true, false or null. It returns the index after it; at if
// it is invalid, len(text) if it is cut off.
func Literal(text []byte, at int, word string) (end int, st Status) {
	n := min(len(text)-at, len(word))
	switch {
	case string(text[at:at+n]) != word[:n]:
		return at, Invalid
	case n < len(word):
		return len(text), Cut
	}
	return at + n, OK
}

// Number checks the number that begins at at, and returns the index after it, or of the byte that makes it invalid.
// Whole reports that it has no fraction and no exponent. A number that ends with the text is OK if it can end there,
// although more digits may follow in a longer text.
func Number(text []byte, at int) (end int, whole bool, st Status) {
	i := at
	if i < len(text) && text[i] == '-' {
		i++
	}
	first := i
	i, st = someDigits(text, i)
	if st == OK && i > first+1 && text[first] == '0' {
		st = Invalid
	}
	whole = true
	if st == OK && i < len(text) && text[i] == '.' {
		whole = false
		i, st = someDigits(text, i+1)
	}
	if st == OK && i < len(text) && text[i]|0x20 == 'e' {
		whole = false
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		i, st = someDigits(text, i)
	}
	return i, whole, st
}

// someDigits is Digits, and checks that there is at least one.
func someDigits(text []byte, at int) (end int, st Status) {
	switch end = Digits(text, at); {
	case end > at:
		return end, OK
	case end == len(text):
		return end, Cut
	}
	return end, Invalid
}

// Digits returns the index of the first byte from at on that is not a decimal digit, len(text) if there is none.
func Digits(text []byte, at int) int {
	for at < len(text) && text[at]-'0' <= 9 {
		at++
	}
	return at
}

// SkipScalar returns the index after the number or literal that begins at at.
func SkipScalar(text []byte, at int) (end int) {
	for ; at < len(text); at++ {
		switch text[at] {
		case ' ', '\n', '\t', '\r', ',', ']', '}':
			return at
		}
	}
	return at
}

// SkipValue returns the index after the value that begins at at, and the number of its tokens: strings, scalars and
// brackets. The end is len(text) if the text ends within the value, or after limit tokens.
func SkipValue(text []byte, at, limit int) (end, tokens int) {
	for depth := 0; at < len(text) && tokens < limit; {
		switch text[at] {
		case ' ', '\n', '\t', '\r', ',', ':':
			at++
			continue
		case '"':
			_, _, at = SkipString(text, at)
		case '{', '[':
			depth++
			at++
		case '}', ']':
			depth--
			at++
		default:
			at = SkipScalar(text, at)
		}
		if tokens++; depth == 0 {
			return at, tokens
		}
	}
	return len(text), tokens
}

// IsKey reports whether the string that ends before end is a key, because a colon follows.
func IsKey(text []byte, end int) bool {
	end = Space(text, end)
	return end < len(text) && text[end] == ':'
}

// AfterKey returns the index of the value behind a key, of which end is the index after its closing quote; len(text) if
// the text ends before the value. It is -1 if no colon follows: the string is no key, or the text ends here.
func AfterKey(text []byte, end int) int {
	if end = Space(text, end); end < len(text) && text[end] == ':' {
		return Space(text, end+1)
	}
	return -1
}
