package prompt

import (
	"encoding/binary"
	"math/bits"
)

// The functions of this file navigate in JSON that Scan has validated, but that may be cut off at the end.

// str returns the content of the string that begins at i, without its quotes, whether it has escapes, and the index
// after it.
func str(v []byte, i int) (content []byte, escaped bool, end int) {
	for at := i + 1; at < len(v); {
		for len(v)-at >= 8 {
			if m := special(binary.LittleEndian.Uint64(v[at:])); m != 0 {
				at += bits.TrailingZeros64(m) >> 3
				break
			}
			at += 8
		}
		for at < len(v) && v[at] == '\\' {
			at, escaped = at+2, true
			if at < len(v) && v[at] != '\\' && v[at] != '"' {
				at++
			}
		}
		switch {
		case at >= len(v):
		case v[at] == '"':
			return v[i+1 : at], escaped, at + 1
		case v[at] != '\\':
			at++
		}
	}
	return v[i+1:], escaped, len(v)
}

// scalarEnd returns the index after the number or literal that begins at i.
func scalarEnd(v []byte, i int) int {
	for ; i < len(v); i++ {
		switch v[i] {
		case ' ', '\n', '\t', '\r', ',', ']', '}':
			return i
		}
	}
	return i
}

// isKey reports whether the string that ends at i is a key.
func isKey(v []byte, i int) bool {
	for ; i < len(v); i++ {
		switch v[i] {
		case ' ', '\n', '\t', '\r':
		default:
			return v[i] == ':'
		}
	}
	return false
}

// skip returns the index after the value that begins at i. It counts its steps, and returns the end of v after
// maxSteps.
func skip(v []byte, i int, steps *int) int {
	for depth := 0; i < len(v) && *steps <= maxSteps; {
		switch v[i] {
		case '"':
			_, _, i = str(v, i)
		case '{', '[':
			depth++
			i++
			*steps += markSteps
			continue
		case '}', ']':
			depth--
			i++
		case ' ', '\n', '\t', '\r', ',', ':':
			i++
			continue
		default:
			i = scalarEnd(v, i)
		}
		*steps += markSteps
		if depth == 0 {
			return i
		}
	}
	return len(v)
}

// member returns the position of the member with the given name in the object that begins at i, and of its value: empty
// spans if there is none among the first 16 members. Open reports that it may follow after the end of a cut-off body.
func member(v []byte, i int, name string, steps *int) (all, value span, open bool) {
	const few = 16
	for n := 0; n < few; n++ {
		for i++; i < len(v) && (isSpace(v[i]) || v[i] == ','); i++ {
		}
		if i >= len(v) {
			return span{}, span{}, true
		}
		if v[i] == '}' {
			break
		}
		begin := i
		var key []byte
		if key, i = keyAt(v, i); i >= len(v) {
			return span{}, span{}, true
		}
		end := skip(v, i, steps)
		if string(key) == name {
			return span{begin, end}, span{i, end}, false
		}
		i = end - 1
	}
	return span{}, span{}, false
}

// keyAt returns the key that begins at i, and the index of its value, len(v) or more if v ends before it.
func keyAt(v []byte, i int) (key []byte, value int) {
	key, _, i = str(v, i)
	for i < len(v) && v[i] != ':' {
		i++
	}
	for i++; i < len(v) && isSpace(v[i]); i++ {
	}
	return key, i
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }
