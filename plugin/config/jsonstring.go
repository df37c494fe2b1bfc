package config

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// str parses the string at the current position. A string without escapes is a part of the source, not a copy.
func (r *reader) str() (string, string) {
	r.pos++
	start := r.pos
	var unescaped []byte
	for r.pos < len(r.src) {
		switch c := r.src[r.pos]; {
		case c == '"':
			tail := r.src[start:r.pos]
			r.pos++
			if unescaped == nil {
				return tail, ""
			}
			return string(append(unescaped, tail...)), ""
		case c < ' ':
			return "", "a control character inside a string"
		case c == '\\':
			unescaped = append(unescaped, r.src[start:r.pos]...)
			var ok bool
			if unescaped, ok = r.escape(unescaped); !ok {
				return "", "an unknown escape inside a string"
			}
			start = r.pos
		default:
			r.pos++
		}
	}
	return "", "the string does not end"
}

// escape appends the character of the escape at the current position, and moves behind it.
func (r *reader) escape(dst []byte) ([]byte, bool) {
	if r.pos+1 >= len(r.src) {
		return dst, false
	}
	c := r.src[r.pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		first, ok := r.hex(r.pos)
		if !ok {
			return dst, false
		}
		r.pos += 6
		if utf16.IsSurrogate(first) {
			if second, ok := r.hex(r.pos); ok {
				if pair := utf16.DecodeRune(first, second); pair != utf8.RuneError {
					r.pos += 6
					return utf8.AppendRune(dst, pair), true
				}
			}
			first = utf8.RuneError
		}
		return utf8.AppendRune(dst, first), true
	default:
		return dst, false
	}
	r.pos += 2
	return append(dst, c), true
}

// hex reads the \uXXXX that starts at the given place.
func (r *reader) hex(at int) (rune, bool) {
	if at+6 > len(r.src) || r.src[at] != '\\' || r.src[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(r.src[at+2:at+6], 16, 32)
	return rune(n), err == nil
}
