package config

import "strings"

// APIPaths are the paths of admission APIs in what was refused. Callers send a token to them, which no model server
// must see.
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

// RefusedAPIs returns the paths of admission APIs in a configuration that is refused as a whole.
func RefusedAPIs(raw []byte) APIPaths { return findAPIs(string(raw[:min(len(raw), maxBytes)])) }

// RefusedAPIs returns the paths of admission APIs in the parts that are refused, also where their last good form is in
// force. An API in force may have the same path.
func (s *Set) RefusedAPIs() APIPaths { return s.refusedAPIs }

// findAPIs returns the paths of the APIs in a text that may be no JSON, or have its keys in wrong places.
func findAPIs(text string) (paths APIPaths) {
	r := &reader{src: text, text: []byte(text)}
	for r.pos < len(text) {
		if name, ok := r.nextString(); ok && name == "api" && r.accept(':') && r.accept('{') {
			paths = r.apiPaths(paths)
		}
	}
	return paths
}

// apiPaths appends the paths of an object whose brace has been read.
func (r *reader) apiPaths(paths APIPaths) APIPaths {
	for r.next() != 0 && r.next() != '}' {
		name, ok := r.nextString()
		if !ok || name != "path" || !r.accept(':') || r.next() != '"' {
			continue
		}
		if path, ok := r.nextString(); ok {
			if path = "/" + strings.Trim(path, "/"); isAPIPath(path) { // what callers of a wrong one may use
				paths = append(paths, path)
			}
		}
	}
	return paths
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
