package source

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// style is how a string is written.
type style int

const (
	plain       style = iota // without quotes
	escaped                  // in double quotes, with backslashes
	apostrophes              // in single quotes, where two stand for one
	block                    // the lines below a | or >
)

// Inner returns the content of a string as a text of its own, so that what is in it has a place in the file.
func (f *File) Inner(n *Node) *Text {
	a := &aligner{file: f.Text, at: f.content(n), style: n.style}
	t := &a.text
	t.mark(a.at, false)
	for i := 0; i < len(n.Text); {
		a.skip(n.Text[i:])
		size := a.step(n.Text[i:])
		if size == 0 { // not as it should be: all that follows is here
			t.Bytes = append(t.Bytes, n.Text[i:]...)
			break
		}
		t.Bytes = append(t.Bytes, n.Text[i:i+size]...)
		i += size
	}
	return t
}

// content returns where the content of a string begins: behind its tag, its anchor and its quote, or below its bar.
func (f *File) content(n *Node) int {
	at := n.At
	for at < len(f.Text) && (f.Text[at] == '!' || f.Text[at] == '&') {
		end := bytes.IndexAny(f.Text[at:], blanks)
		if end < 0 {
			break
		}
		at += end
		at += len(f.Text[at:]) - len(bytes.TrimLeft(f.Text[at:], blanks))
	}
	switch n.style {
	case escaped, apostrophes:
		at++
	case block:
		if end := bytes.IndexByte(f.Text[min(at, len(f.Text)):], '\n'); end >= 0 {
			at += end + 1
		}
	}
	return min(at, len(f.Text))
}

// aligner goes through a string as it is written and as it is meant at once.
type aligner struct {
	file  []byte
	at    int
	style style
	text  Text
}

const blanks = " \t\r\n"

func blank(c byte) bool { return strings.IndexByte(blanks, c) >= 0 }

// skip goes over what stands for nothing: indentation, and the ends of lines that go on.
func (a *aligner) skip(rest string) {
	for a.at < len(a.file) {
		switch c := a.file[a.at]; {
		case blank(c) && !blank(rest[0]):
			a.at++
		case a.style == escaped && bytes.HasPrefix(a.file[a.at:], []byte("\\\n")):
			a.at += 2
		case a.style == escaped && bytes.HasPrefix(a.file[a.at:], []byte("\\\r\n")):
			a.at += 3
		default:
			return
		}
	}
}

// step takes over the next character or escape. It returns how many bytes of the string that are, 0 if they are not
// what is written.
func (a *aligner) step(rest string) int {
	if a.at >= len(a.file) {
		return 0
	}
	c := a.file[a.at]
	switch {
	case a.style == escaped && c == '\\':
		a.text.mark(a.at, false)
		size, length := unescape(a.file[a.at:])
		a.at += length
		return min(size, len(rest))
	case a.style == apostrophes && c == '\'':
		a.text.mark(a.at, false)
		a.at += 2
		return 1
	case c == rest[0]:
		a.text.mark(a.at, true)
		a.at++
		return 1
	case blank(c) && blank(rest[0]): // a line that was folded
		a.text.mark(a.at, false)
		return 1
	}
	a.text.mark(a.at, false)
	return 0
}

// unescape returns how many bytes an escape stands for, and how long it is.
func unescape(raw []byte) (size, length int) {
	if len(raw) < 2 {
		return 0, len(raw)
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[raw[1]]
	if digits == 0 {
		switch raw[1] {
		case 'N', '_':
			return 2, 2
		case 'L', 'P':
			return 3, 2
		}
		return 1, 2
	}
	length = min(2+digits, len(raw))
	code, err := strconv.ParseUint(string(raw[2:length]), 16, 32)
	if err != nil {
		return 0, length
	}
	if code >= 0xd800 && code < 0xdc00 && bytes.HasPrefix(raw[length:], []byte(`\u`)) {
		return 4, min(length+6, len(raw)) // one character of two escapes, in JSON
	}
	if size = utf8.RuneLen(rune(code)); size < 0 {
		size = len(string(utf8.RuneError))
	}
	return size, length
}
