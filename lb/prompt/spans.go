package prompt

import (
	"bytes"
	"strings"
)

// Parts is the positions in a body of the fields that make up the prompt.
type Parts struct {
	spans    [fieldCount]span
	cutField field // the field in whose value the body ends
	cut      bool  // the body was not read to its end
	long     longStrings
	inPath   string // the model's name there
}

// InPath says that the path of the request contains the name of a model: see [IsolatingPath].
func (p *Parts) InPath(model string) { p.inPath = model }

// Cut reports whether the body was not read to its end: it ends too early, or has too many values.
func (p *Parts) Cut() bool { return p.cut }

type span struct{ from, to int }

// of returns the value of a field as it is written, empty if it is absent. It may be incomplete in a cut-off body.
func (p *Parts) of(body []byte, f field) []byte {
	s := p.spans[f]
	return body[s.from:s.to]
}

// Model returns the name of the model as the body writes it, empty if there is none.
func (p *Parts) Model(body []byte) []byte { return p.of(body, fieldModel) }

// ModelName returns the name of the model, "" if there is none or it exceeds 1 KiB: that in the body if it is a text,
// or else that in the path.
func (p *Parts) ModelName(body []byte) string {
	value := p.Model(body)
	if p.cutField == fieldModel { // the name of another one
		value = nil
	}
	switch {
	case (len(value) == 0 || value[0] != '"') && len(p.inPath) <= maxModelName:
		return strings.Clone(p.inPath) // keeps nothing of the path
	case len(value) > maxModelName:
		return ""
	}
	if n := len(value); n > 1 && value[0] == '"' && value[n-1] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : n-1])
	}
	return string(nameIn(nil, value))
}
