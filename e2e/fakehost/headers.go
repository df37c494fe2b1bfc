package fakehost

import "strings"

// Headers is an ordered header map. Names compare without regard to case.
type Headers [][2]string

// H builds Headers from name, value pairs. It panics on an odd number of arguments.
func H(pairs ...string) Headers {
	if len(pairs)%2 != 0 {
		panic("fakehost: H takes name, value pairs")
	}
	h := make(Headers, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Get returns the first value of name, or "".
func (h Headers) Get(name string) string {
	v, _ := h.Lookup(name)
	return v
}

// Values returns all values of name in order.
func (h Headers) Values(name string) []string {
	var out []string
	for _, p := range h {
		if strings.EqualFold(p[0], name) {
			out = append(out, p[1])
		}
	}
	return out
}

// Has reports whether name is present.
func (h Headers) Has(name string) bool {
	_, ok := h.Lookup(name)
	return ok
}

// Lookup returns the first value of name, and whether it is present.
func (h Headers) Lookup(name string) (string, bool) {
	for _, p := range h {
		if strings.EqualFold(p[0], name) {
			return p[1], true
		}
	}
	return "", false
}

// Map returns the headers by name, nil for none. Of several values of a name the last one is there.
func (h Headers) Map() map[string]string {
	if h == nil {
		return nil
	}
	m := map[string]string{}
	for _, p := range h {
		m[p[0]] = p[1]
	}
	return m
}

// Add appends a value, keeping those already there.
func (h *Headers) Add(name, value string) {
	*h = append(*h, [2]string{strings.ToLower(name), value})
}

// Set replaces all values of name by one, at the place of the first.
func (h *Headers) Set(name, value string) {
	out := make(Headers, 0, len(*h)+1)
	placed := false
	for _, p := range *h {
		switch {
		case !strings.EqualFold(p[0], name):
			out = append(out, p)
		case !placed:
			out = append(out, [2]string{p[0], value})
			placed = true
		}
	}
	*h = out
	if !placed {
		h.Add(name, value)
	}
}

// Del removes all values of name.
func (h *Headers) Del(name string) {
	out := make(Headers, 0, len(*h))
	for _, p := range *h {
		if !strings.EqualFold(p[0], name) {
			out = append(out, p)
		}
	}
	*h = out
}

// Clone returns a copy.
func (h Headers) Clone() Headers { return append(Headers(nil), h...) }
