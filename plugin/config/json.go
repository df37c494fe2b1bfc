package config

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// Limits of a configuration. They bound the memory and time that a hostile or broken push can cost; real ones are
// far below.
const (
	maxBytes  = 1 << 20
	maxDepth  = 32
	maxValues = 1 << 16
	maxRules  = 4096
)

type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// String names the kind with its article, as errors use it.
func (k kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// value is one JSON value.
type value struct {
	kind  kind
	text  string   // a string's content without escapes; the source of a number, true or false
	names []string // an object's keys in the order of the source, duplicates included
	items []value  // an object's values, beside names, or an array's elements

	from, to int // where it is in the source
}

// syntaxError is a place where the text stops being JSON. It never quotes the text, which may be a password.
type syntaxError struct {
	at           int // in bytes
	line, column int
	what         string
}

func (e *syntaxError) Error() string {
	return "not valid JSON at line " + strconv.Itoa(e.line) + ", column " + strconv.Itoa(e.column) + ": " + e.what
}

// reader parses JSON as RFC 8259 has it: no comments, no trailing commas, nothing after the value. Unlike common
// decoders it keeps duplicate keys, which a strict configuration must refuse.
type reader struct {
	src    string
	text   []byte // the same
	pos    int
	values int
}

func parseJSON(src string) (value, error) {
	r := &reader{src: src, text: []byte(src)}
	v, what := r.value(0)
	if what == "" {
		if r.pos = jsontext.Space(r.text, r.pos); r.pos < len(src) {
			what = "text after the end of the object"
		}
	}
	if what != "" {
		done := src[:min(r.pos, len(src))]
		line := 1 + strings.Count(done, "\n")
		column := utf8.RuneCountInString(done[strings.LastIndexByte(done, '\n')+1:]) + 1
		return value{}, &syntaxError{r.pos, line, column, what}
	}
	return v, nil
}

// next skips white space and returns the byte there, 0 at the end of the text.
//
//go:noinline
func (r *reader) next() byte {
	if r.pos = jsontext.Space(r.text, r.pos); r.pos == len(r.src) {
		return 0
	}
	return r.src[r.pos]
}

// value parses the value at the current position. The second result is what is wrong with it, "" if it is valid.
func (r *reader) value(depth int) (value, string) {
	from := jsontext.Space(r.text, r.pos)
	r.pos = from
	v, what := r.bare(depth)
	v.from, v.to = from, r.pos
	return v, what
}

// bare is value without its place.
func (r *reader) bare(depth int) (value, string) {
	if r.values++; r.values > maxValues {
		return value{}, "more than " + strconv.Itoa(maxValues) + " values"
	}
	if depth > maxDepth {
		return value{}, "nested deeper than " + strconv.Itoa(maxDepth) + " levels"
	}
	switch c := r.next(); {
	case c == '{':
		return r.members(depth)
	case c == '[':
		return r.elements(depth)
	case c == '"':
		s, what := r.str()
		return value{kind: kindString, text: s}, what
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	case c == 0:
		return value{}, "a value is missing"
	}
	for _, l := range literals {
		if strings.HasPrefix(r.src[r.pos:], l.text) {
			r.pos += len(l.text)
			return l, ""
		}
	}
	return value{}, "not the beginning of a value"
}

var literals = []value{{kind: kindBool, text: "true"}, {kind: kindBool, text: "false"}, {kind: kindNull, text: "null"}}

func (r *reader) members(depth int) (value, string) {
	v := value{kind: kindObject}
	r.pos++
	if r.next() == '}' {
		r.pos++
		return v, ""
	}
	for {
		if r.next() != '"' {
			return v, "a key in double quotes is missing"
		}
		name, what := r.str()
		if what != "" {
			return v, what
		}
		if r.next() != ':' {
			return v, "a colon is missing after the key"
		}
		r.pos++
		item, what := r.value(depth + 1)
		if what != "" {
			return v, what
		}
		v.names, v.items = append(v.names, name), append(v.items, item)
		more, what := r.separator('}')
		if !more {
			return v, what
		}
	}
}

func (r *reader) elements(depth int) (value, string) {
	v := value{kind: kindArray}
	r.pos++
	if r.next() == ']' {
		r.pos++
		return v, ""
	}
	for {
		item, what := r.value(depth + 1)
		if what != "" {
			return v, what
		}
		v.items = append(v.items, item)
		more, what := r.separator(']')
		if !more {
			return v, what
		}
	}
}

// separator steps over a comma (true) or over the closing bracket (false).
func (r *reader) separator(closing byte) (bool, string) {
	switch r.next() {
	case ',':
		r.pos++
		return true, ""
	case closing:
		r.pos++
		return false, ""
	}
	return false, "a comma or " + string(rune(closing)) + " is missing"
}

func (r *reader) number() (value, string) {
	end, _, st := jsontext.Number(r.text, r.pos)
	v := value{kind: kindNumber, text: r.src[r.pos:end]}
	if r.pos = end; st != jsontext.OK {
		return value{}, "not a number"
	}
	return v, ""
}

// str parses the string at the current position. A string without escapes is a part of the source, not a copy.
func (r *reader) str() (string, string) {
	start := r.pos + 1
	end, excess, st := jsontext.String(r.text, r.pos)
	switch r.pos = end; {
	case st == jsontext.OK && excess == 0:
		return r.src[start : end-1], ""
	case st == jsontext.OK:
		return string(jsontext.AppendUnescaped(nil, r.text[start:end-1])), ""
	case end == len(r.text):
		return "", "the string does not end"
	case r.text[end] == '\\':
		return "", "an unknown escape inside a string"
	}
	return "", "a control character inside a string"
}
