package apicall

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file writes the texts of answers, in JSON.

// errorText returns the body of an answer that is an error.
func errorText(why string) string { return `{"error":` + Quote(why) + `}` }

// Quote returns the text in quotes, as JSON has it.
func Quote(text string) string {
	b := make([]byte, 0, len(text)+2)
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, HexDigits[r>>4], HexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

// HexDigits are the digits of hexadecimal numbers.
const HexDigits = "0123456789abcdef"

// Object writes the members of an object one after another.
type Object struct{ text []byte }

// Add adds a member whose value is a JSON text. It is not inlined at its callers, for the size of the artifacts.
//
//go:noinline
func (o *Object) Add(name, value string) {
	sep := byte(',')
	if len(o.text) == 0 {
		sep = '{'
	}
	o.text = append(append(append(append(o.text, sep, '"'), name...), '"', ':'), value...)
}

// String adds a text.
func (o *Object) String(name, value string) { o.Add(name, Quote(value)) }

// Int adds a whole number.
func (o *Object) Int(name string, value int64) { o.Add(name, strconv.FormatInt(value, 10)) }

// Rounded adds a number with two digits behind the point at most.
func (o *Object) Rounded(name string, value float64) {
	o.Float(name, math.Round(value*100)/100)
}

// Float adds a number, one that is infinite as the greatest that there is, and one that is none as 0. It has an
// exponent only where encoding/json writes one: readers that want a whole number refuse 1e+06.
func (o *Object) Float(name string, value float64) {
	if value != value {
		value = 0
	}
	value = min(max(value, -math.MaxFloat64), math.MaxFloat64)
	format := byte('f')
	if size := math.Abs(value); size >= 1e21 || size > 0 && size < 1e-6 {
		format = 'e'
	}
	o.Add(name, strconv.FormatFloat(value, format, -1, 64))
}

// Bool adds true or false.
func (o *Object) Bool(name string, value bool) { o.Add(name, strconv.FormatBool(value)) }

// End returns the object.
func (o *Object) End() string {
	if len(o.text) == 0 {
		return "{}"
	}
	return string(append(o.text, '}'))
}

// List returns a list of n values, each of which is a JSON text.
func List(n int, value func(i int) string) string {
	var list strings.Builder
	list.WriteByte('[')
	for i := range n {
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(value(i))
	}
	list.WriteByte(']')
	return list.String()
}

// Unescape returns a part of a path with its escaped bytes, such as %7C, as they are. What is no escape is left.
func Unescape(part string) string {
	out := make([]byte, 0, len(part))
	for i := 0; i < len(part); i++ {
		if part[i] == '%' && i+2 < len(part) {
			if b, err := strconv.ParseUint(part[i+1:i+3], 16, 8); err == nil {
				out, i = append(out, byte(b)), i+2
				continue
			}
		}
		out = append(out, part[i])
	}
	return string(out)
}
