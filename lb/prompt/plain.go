package prompt

import "github.com/warmgate/warmgate/internal/jsontext"

// nameIn appends the name in a value to dst: the text of a string, anything else in one spelling.
func nameIn(dst, value []byte) []byte {
	if len(value) == 0 || value[0] != '"' {
		w := plainWriter{dst, value}
		if len(value) > 0 {
			w.value(0, 0)
		}
		return w.dst
	}
	content, _, _ := jsontext.SkipString(value, 0)
	return jsontext.AppendUnescaped(dst, content)
}

// plainWriter appends a value to dst in a spelling that is the same however it is written: without white space and
// escapes that need not be, and with members in the order of their keys. Objects that are too deep, or have too many
// members, stay as they are.
type plainWriter struct{ dst, v []byte }

// write appends a part of the value as it is. It is not inlined, for the size of the artifacts, as mark is not.
//
//go:noinline
func (w *plainWriter) write(from, to int) { w.dst = append(w.dst, w.v[from:to]...) }

//go:noinline
func (w *plainWriter) mark(b byte) { w.dst = append(w.dst, b) }

// value appends the value that begins at i, and returns the index after it.
func (w *plainWriter) value(i, depth int) (end int) {
	switch b := w.v[i]; {
	case b == '"':
		return w.text(i)
	case b == '{' && depth < maxLevels && w.object(i, depth):
		end, _ = jsontext.SkipValue(w.v, i, len(w.v))
		return end
	case b == '[' && depth < maxLevels:
		w.mark(b)
		for i++; i < len(w.v) && w.v[i] != ']'; {
			switch {
			case jsontext.IsSpace(w.v[i]):
				i++
			case w.v[i] == ',':
				w.mark(',')
				i++
			default:
				i = w.value(i, depth+1)
			}
		}
		w.mark(']')
		return min(i+1, len(w.v))
	}
	end, _ = jsontext.SkipValue(w.v, i, len(w.v))
	w.write(i, end)
	return end
}

// object appends the object that begins at i, unless it has too many members.
func (w *plainWriter) object(i, depth int) bool {
	var list [maxMembers]objectMember
	n := 0
	for i = jsontext.Space(w.v, i+1); i < len(w.v) && w.v[i] != '}'; i = jsontext.Space(w.v, i) {
		if w.v[i] == ',' {
			i++
			continue
		}
		if n == len(list) {
			return false
		}
		_, _, end := jsontext.SkipString(w.v, i)
		at := jsontext.AfterKey(w.v, end)
		if at < 0 || at == len(w.v) {
			return false
		}
		m := objectMember{key: span{i, end}, value: span{at, at}}
		k := n
		for ; k > 0 && list[k-1].after(&m, w.v); k-- {
			list[k] = list[k-1]
		}
		list[k] = m
		n++
		i, _ = jsontext.SkipValue(w.v, at, len(w.v))
	}
	w.mark('{')
	for k := range list[:n] {
		if k > 0 {
			w.mark(',')
		}
		w.text(list[k].key.from)
		w.mark(':')
		w.value(list[k].value.from, depth+1)
	}
	w.mark('}')
	return true
}

// text appends the string that begins at i, and returns the index after it.
func (w *plainWriter) text(i int) (end int) {
	content, escaped, end := jsontext.SkipString(w.v, i)
	if !escaped {
		w.write(i, end)
		return end
	}
	w.mark('"')
	for _, b := range jsontext.AppendUnescaped(nil, content) {
		if b == '"' || b == '\\' {
			w.mark('\\')
		}
		w.mark(b)
	}
	w.mark('"')
	return end
}

// maxModelName is the length in bytes up to which a name is unescaped; a longer one is hashed as it is written.
const maxModelName = 1 << 10
