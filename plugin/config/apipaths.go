package config

import "strings"

// APIPaths are the paths of APIs of the plugin, for admission and to look inside, in what was refused. Callers send a
// token to them, which no model server must see.
type APIPaths []string

// Contain reports whether the path of a request is one of them, or below one. It may have a query.
func (a APIPaths) Contain(path string) bool {
	for _, of := range a {
		if _, ok := pathBelow(path, of); ok {
			return true
		}
	}
	return false
}

// RefusedAPIs returns the paths of such APIs in a configuration that is refused as a whole.
func RefusedAPIs(raw []byte) APIPaths { return findAPIs(string(raw[:min(len(raw), maxBytes)])) }

// findAPIs returns the paths of the APIs in a text that may be no JSON, or have its keys in wrong places.
func findAPIs(text string) (paths APIPaths) {
	r := &reader{src: text, text: []byte(text)}
	for r.pos < len(text) {
		if name, ok := r.nextString(); !ok || name != "api" && name != "inspect" || !r.accept(':') {
			continue
		}
		if r.accept('['); r.accept('{') {
			paths = r.apiPaths(paths)
		}
	}
	return paths
}

// apiPaths appends the paths of an object whose brace has been read, but not those of what is in it.
func (r *reader) apiPaths(paths APIPaths) APIPaths {
	for depth := 0; r.next() != 0; {
		switch r.next() {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return paths
			}
		}
		name, ok := r.nextString()
		if !ok || name != "path" || depth > 0 || !r.accept(':') || r.next() != '"' {
			continue
		}
		if path, ok := r.nextString(); ok {
			if path = likelyAPIPath(path); isAPIPath(path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// likelyAPIPath returns what callers may use where the path is a wrong one, as with a slash at its end or a wildcard.
func likelyAPIPath(path string) string {
	path, _, _ = strings.Cut(path, "?")
	return "/" + strings.Trim(path, "/*")
}

// nextString reads a string if there is one. Else it steps over what is there, up to where a string goes wrong.
func (r *reader) nextString() (text string, ok bool) {
	if r.next() != '"' {
		r.pos = min(r.pos+1, len(r.src))
		return "", false
	}
	text, what := r.str()
	return text, what == ""
}

// accept steps over a character if it is the next one.
func (r *reader) accept(c byte) bool {
	if r.next() != c {
		return false
	}
	r.pos++
	return true
}
