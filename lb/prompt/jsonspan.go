package prompt

import "bytes"

// What is here finds its way in JSON that Scan has found valid, but that may be cut off at the end.

// str returns the content of the string that begins at i, without its quotes, and the place behind it.
func str(v []byte, i int) (content []byte, end int) {
	for at := i + 1; ; {
		n := bytes.IndexByte(v[at:], '"')
		if n < 0 {
			return v[i+1:], len(v)
		}
		at += n
		slashes := 0
		for v[at-1-slashes] == '\\' {
			slashes++
		}
		if at++; slashes%2 == 0 {
			return v[i+1 : at-1], at
		}
	}
}

// scalarEnd returns the place behind the number or literal that begins at i.
func scalarEnd(v []byte, i int) int {
	for ; i < len(v); i++ {
		switch v[i] {
		case ' ', '\n', '\t', '\r', ',', ']', '}':
			return i
		}
	}
	return i
}

// isKey says whether the string that ends at i is a key.
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

// skip returns the place behind the value that begins at i.
func skip(v []byte, i int) int {
	for depth := 0; i < len(v); {
		switch v[i] {
		case '"':
			_, i = str(v, i)
		case '{', '[':
			depth++
			i++
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
		if depth == 0 {
			return i
		}
	}
	return len(v)
}

// member returns where in an object its member of the given name is, and the value of that: empty spans if it has none.
func member(object []byte, name string) (all, value span) {
	for i := 1; i < len(object); {
		switch object[i] {
		case ' ', '\n', '\t', '\r', ',', '}':
			i++
			continue
		}
		begin := i
		key, end := str(object, i)
		found := string(key) == name
		for i = end; i < len(object) && object[i] != ':'; i++ {
		}
		for i++; i < len(object) && isSpace(object[i]); i++ {
		}
		if i >= len(object) {
			break
		}
		if end = skip(object, i); found {
			return span{begin, end}, span{i, end}
		}
		i = end
	}
	return span{}, span{}
}

func isSpace(b byte) bool { return b == ' ' || b == '\n' || b == '\t' || b == '\r' }
