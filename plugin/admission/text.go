package admission

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warmgate/warmgate/lb"
)

// This file writes and reads the texts of the admission API.

// errorText returns the body of an answer that is an error.
func errorText(why string) string { return `{"error":` + jsonString(why) + `}` }

// jsonString returns the text in quotes, as JSON has it.
func jsonString(text string) string {
	b := make([]byte, 0, len(text)+2)
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ':
			b = append(b, `\u00`...)
			b = append(b, hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return string(append(b, '"'))
}

const hexDigits = "0123456789abcdef"

// jsonObject writes the members of an object one after another.
type jsonObject struct{ text []byte }

// add is not inlined at its callers, for the size of the artifacts.
//
//go:noinline
func (o *jsonObject) add(name, value string) {
	sep := byte(',')
	if len(o.text) == 0 {
		sep = '{'
	}
	o.text = append(append(append(append(o.text, sep, '"'), name...), '"', ':'), value...)
}

func (o *jsonObject) addString(name, value string) { o.add(name, jsonString(value)) }

func (o *jsonObject) addInt(name string, value int64) { o.add(name, strconv.FormatInt(value, 10)) }

// addNumber adds a number with two digits behind the point at most.
func (o *jsonObject) addNumber(name string, value float64) {
	text := strconv.FormatFloat(value, 'f', 2, 64)
	for text[len(text)-1] == '0' {
		text = text[:len(text)-1]
	}
	if text[len(text)-1] == '.' {
		text = text[:len(text)-1]
	}
	o.add(name, text)
}

func (o *jsonObject) end() string { return string(append(o.text, '}')) }

// taskPrefix begins the id of a task as callers have it; hexadecimal digits follow.
const taskPrefix = "tsk_"

func formatTask(id lb.TaskID) string {
	b := []byte(taskPrefix)
	for _, c := range id {
		b = append(b, hexDigits[c>>4], hexDigits[c&15])
	}
	return string(b)
}

// parseTask reads what formatTask has written. ok is false for any other text, of which there is no task.
func parseTask(text string) (id lb.TaskID, ok bool) {
	if len(text) != len(taskPrefix)+2*len(id) || text[:len(taskPrefix)] != taskPrefix {
		return id, false
	}
	text = text[len(taskPrefix):]
	for i := range id {
		high, low := strings.IndexByte(hexDigits, text[2*i]), strings.IndexByte(hexDigits, text[2*i+1])
		if high < 0 || low < 0 {
			return id, false
		}
		id[i] = byte(high<<4 | low)
	}
	return id, true
}
