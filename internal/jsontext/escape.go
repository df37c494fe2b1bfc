package jsontext

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unitLen is the length of an escape of a UTF-16 unit.
const unitLen = len(`\u0000`)

// DecodeEscape returns the character of the escape at the beginning of the text, and the length of the escape: 2, 6 or,
// of a surrogate pair, 12 bytes. The length is 0 if the text ends within the escape, but a high surrogate whose low one
// is cut off counts as unpaired. An unpaired surrogate is U+FFFD, and so is an escape that does not exist.
func DecodeEscape(text []byte) (r rune, length int) {
	if len(text) > 1 && text[1] != 'u' {
		if c := SimpleEscape(text[1]); c != 0 {
			return rune(c), 2
		}
		return utf8.RuneError, 2
	}
	return decodeUnits(text)
}

// decodeUnits is DecodeEscape for a \u escape.
func decodeUnits(text []byte) (r rune, length int) {
	if len(text) < unitLen {
		return utf8.RuneError, 0
	}
	switch r = rune(codeUnit(text)); {
	case r < 0:
		return utf8.RuneError, unitLen
	case !utf16.IsSurrogate(r):
		return r, unitLen
	}
	if len(text) >= 2*unitLen && text[unitLen] == '\\' && text[unitLen+1] == 'u' {
		if pair := utf16.DecodeRune(r, rune(codeUnit(text[unitLen:]))); pair != utf8.RuneError {
			return pair, 2 * unitLen
		}
	}
	return utf8.RuneError, unitLen
}

// AppendUnescaped appends the text that the content of a string stands for, in UTF-8. Where the content ends within an
// escape, that is U+FFFD.
func AppendUnescaped(dst, content []byte) []byte {
	for {
		at := bytes.IndexByte(content, '\\')
		if at < 0 {
			return append(dst, content...)
		}
		dst = append(dst, content[:at]...)
		r, length := DecodeEscape(content[at:])
		dst = utf8.AppendRune(dst, r)
		if length == 0 {
			return dst
		}
		content = content[at+length:]
	}
}

// UnescapedLen returns the length in bytes that a text has when its escapes are replaced by what they stand for. It may
// be the content of a string or any other part of a JSON text; surrogates count as in [String].
func UnescapedLen(text []byte) int {
	length := len(text)
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 {
			return length
		}
		for text = text[at:]; len(text) > 1 && text[0] == '\\'; {
			n, plain := 2, 1
			if text[1] == 'u' && len(text) >= unitLen {
				n, plain = unitLen, encodedLen(codeUnit(text))
			}
			length -= n - plain
			text = text[n:]
		}
		if len(text) < 2 {
			return length
		}
	}
}

// codeUnit returns the UTF-16 unit of the \u escape at the beginning of the text, which has at least unitLen bytes; it
// is negative if there are not four hexadecimal digits.
func codeUnit(text []byte) int {
	a, b, c, d := hexValue[text[2]], hexValue[text[3]], hexValue[text[4]], hexValue[text[5]]
	if a|b|c|d > 15 {
		return -1
	}
	return int(a)<<12 | int(b)<<8 | int(c)<<4 | int(d)
}

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

// SimpleEscape returns the character of the escape of a backslash and b, 0 if there is none. It is the fast part of
// [DecodeEscape].
func SimpleEscape(b byte) byte { return simpleEscapes[b] }

// simpleEscapes is the character of each escape of two bytes, 0 where there is none. It is a table for speed: texts may
// have many escapes.
var simpleEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

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
