package measured

import (
	"strconv"
	"unicode/utf8"
)

// MaxModel is the length in bytes at which the name of a model is cut off in logs: a client could choose it.
const MaxModel = 64

// Clean returns a text that a client could choose, cut off, and with every byte that is no UTF-8 replaced: a
// google.protobuf.Struct with such a byte is no message at all.
func Clean(text string) string {
	if len(text) > MaxModel {
		n := MaxModel
		for n > MaxModel-utf8.UTFMax && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n]
	}
	if utf8.ValidString(text) {
		return text
	}
	b := make([]byte, 0, len(text)+utf8.UTFMax)
	for _, c := range text {
		b = utf8.AppendRune(b, c)
	}
	return string(b)
}

// AppendQuoted appends the fields as a JSON object between whose quotes and backslashes there is one more backslash: so
// it can stand between quotes in a format of an access log that is JSON itself. Who reads it parses it twice.
func AppendQuoted(b []byte, fields []Field) []byte {
	b = append(b, '{')
	for i := range fields {
		f := &fields[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, `\"`...), f.Name...), `\":`...)
		if f.Text == "" {
			b = strconv.AppendFloat(b, f.Number, 'f', -1, 64)
			continue
		}
		b = append(appendQuotedText(append(b, `\"`...), f.Text), `\"`...)
	}
	return append(b, '}')
}

func appendQuotedText(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', '\\', '\\', c)
		case c < ' ':
			b = append(b, '\\', '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
