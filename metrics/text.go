package metrics

import (
	"bytes"
	"strconv"
	"unsafe"
)

// trimBlanks returns the text without leading blanks and marks.
func trimBlanks(text []byte, mark byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t' || text[0] == mark) {
		text = text[1:]
	}
	return text
}

// splitName returns the name at the beginning of a line, and the rest.
func splitName(line []byte) (name, rest []byte) {
	end := 0
	for end < len(line) && line[end] != '{' && line[end] != ' ' && line[end] != '\t' {
		end++
	}
	return line[:end], line[end:]
}

// splitLabels returns the labels at the beginning of what follows a name, and the rest. It is not ok if the labels are
// unterminated.
func splitLabels(text []byte) (labels, rest []byte, ok bool) {
	text = trimBlanks(text, ' ')
	if len(text) == 0 || text[0] != '{' {
		return nil, text, true
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '}':
			return text[1:i], text[i+1:], true
		case '"':
			if i = closingQuote(text, i+1); i < 0 {
				return nil, nil, false
			}
		}
	}
	return nil, nil, false
}

// closingQuote returns the index of the quotation mark that ends the string beginning at i, -1 if there is none.
func closingQuote(text []byte, i int) int {
	for ; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// label returns the value of a label with its escapes, nil if it is absent.
func label(labels []byte, name string) []byte {
	for {
		eq := bytes.IndexByte(labels, '=')
		if eq < 0 {
			return nil
		}
		key, _ := splitName(trimBlanks(labels[:eq], ','))
		labels = trimBlanks(labels[eq+1:], ' ')
		if len(labels) == 0 || labels[0] != '"' {
			return nil
		}
		end := closingQuote(labels, 1)
		if end < 0 {
			return nil
		}
		if string(key) == name {
			return labels[1:end]
		}
		labels = labels[end+1:]
	}
}

// number reads the finite number at the beginning of the text. A timestamp or an exemplar may follow it.
func number(text []byte) (float64, bool) {
	text, _ = splitName(trimBlanks(text, ' '))
	text = bytes.TrimSuffix(text, []byte("\r"))
	if n, ok := decimal(text); ok {
		return n, true
	}
	// The longest float64 without redundant zeros has 24 bytes; ParseFloat would take long for a longer one.
	const maxNumber = 64
	if len(text) == 0 || len(text) > maxNumber {
		return 0, false
	}
	for _, c := range text { // ParseFloat accepts Inf, NaN and Go's notations, and allocates for an error
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return 0, false
		}
	}
	n, err := strconv.ParseFloat(unsafe.String(&text[0], len(text)), 64) // does not retain the string
	return n, err == nil
}

// decimal reads a number of up to 16 bytes without an exponent, as nearly all are. The result is rounded correctly,
// because both operands of the division are exact.
func decimal(text []byte) (float64, bool) {
	if len(text) == 0 || len(text) > 16 {
		return 0, false
	}
	n, point := uint64(0), -1
	for i, c := range text {
		switch {
		case c >= '0' && c <= '9':
			n = 10*n + uint64(c-'0')
		case c == '.' && point < 0:
			point = i
		default:
			return 0, false
		}
	}
	digits := len(text)
	if point < 0 {
		return float64(n), true
	}
	return float64(n) / powers[digits-point-1], digits > 1
}

var powers = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}
