package prompt

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// addQuoted adds a string behind a mark.
//
//go:noinline
func (t *cutter) addQuoted(mark byte, content []byte, escaped bool) {
	t.addMark(mark)
	t.addText(content, escaped)
}

// addText adds the content of a string, unescaped if it has escapes.
func (t *cutter) addText(content []byte, escaped bool) {
	if t.oneText {
		t.beginTail(content, escaped)
		defer t.endTail()
	}
	for len(content) > 0 && !t.full() {
		if t.shortLen == len(t.short) {
			t.flush()
		}
		room := min(len(t.short)-t.shortLen, t.stop-t.length)
		written, read := copyText(t.short[t.shortLen:t.shortLen+room], content)
		content = content[read:]
		t.shortLen += written
		t.length += written
		switch {
		case t.length == t.stop:
			t.stopHere()
		case written == room || len(content) == 0:
		case content[0] == escape:
			t.addMark(escape)
			content = content[1:]
		default:
			content = t.addEscapes(content)
		}
	}
	if escaped {
		t.length += jsontext.UnescapedLen(content)
	} else {
		t.length += len(content)
	}
}

// copyText copies text to dst, with simple escapes as what they stand for, up to the first other escape or byte that is
// doubled, as far as it fits. It returns the numbers of bytes; what dst has behind those written is undefined.
//
// It finds escapes as it copies, eight bytes at a time: in a VM, calls to search for the next one and to copy the few
// bytes before it take ten times as long as hashing them.
func copyText(dst, text []byte) (written, read int) {
	const ones, highs, slashes = 0x0101010101010101, 0x8080808080808080, '\\' * 0x0101010101010101
	n, i := 0, 0
	for len(text)-i >= 8 && len(dst)-n >= 8 {
		w := binary.LittleEndian.Uint64(text[i:])
		binary.LittleEndian.PutUint64(dst[n:], w)
		s := w ^ slashes // zero bytes are found as in package jsontext
		found := ((s-ones)&^s | (^w-ones)&w) & highs
		if found == 0 {
			n, i = n+8, i+8
			continue
		}
		plain := bits.TrailingZeros64(found) >> 3
		n, i = n+plain, i+plain
		if text[i] == escape || i+1 == len(text) {
			return n, i
		}
		b := jsontext.SimpleEscape(text[i+1])
		if b == 0 {
			return n, i
		}
		dst[n] = b
		n, i = n+1, i+2
	}
	for ; i < len(text) && n < len(dst) && text[i] != '\\' && text[i] != escape; n, i = n+1, i+1 {
		dst[n] = text[i]
	}
	return n, i
}

// addEscapes adds the characters of a run of escapes, with short gaps in between, and returns the rest. In some
// languages whole texts are escapes, so it decodes many at once. Half an escape at the end of a cut-off body is
// dropped.
func (t *cutter) addEscapes(content []byte) (rest []byte) {
	n, i := 0, 0
	for i < len(content) && n <= len(t.decoded)-utf8.UTFMax {
		if content[i] != '\\' {
			gap := shortGap(content[i:])
			if gap == 0 || gap > len(t.decoded)-n {
				break
			}
			for _, b := range content[i : i+gap] {
				t.decoded[n] = b
				n++
			}
			i += gap
			continue
		}
		if i+1 < len(content) && content[i+1] != 'u' {
			t.decoded[n] = jsontext.SimpleEscape(content[i+1])
			n++
			i += 2
			continue
		}
		r, length := jsontext.DecodeEscape(content[i:])
		if length == 0 {
			i = len(content)
			break
		}
		n = len(utf8.AppendRune(t.decoded[:n], r))
		i += length
	}
	t.add(t.decoded[:n])
	return content[i:]
}

// shortGap returns the number of bytes before the next escape, 0 if there are 8 or more, or one that needs its own
// mark.
func shortGap(content []byte) int {
	const few = 8
	for i, b := range content[:min(few, len(content))] {
		switch b {
		case '\\':
			return i
		case escape:
			return 0
		}
	}
	return 0
}
