package prompt

import (
	"bytes"
	"unicode/utf8"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// addText adds the content of a string, unescaped if it has escapes.
func (c *Chainer) addText(content []byte, escaped bool) {
	if !escaped {
		c.addPlain(content)
		return
	}
	for len(content) > 0 && !c.full() {
		n := bytes.IndexByte(content, '\\')
		if n < 0 {
			n = len(content)
		}
		if n > 0 {
			c.addPlain(content[:n])
		}
		if content = content[n:]; len(content) > 0 {
			content = c.addEscapes(content)
		}
	}
	c.length += jsontext.UnescapedLen(content)
}

// addPlain adds bytes of text.
func (c *Chainer) addPlain(p []byte) {
	for {
		n := bytes.IndexByte(p, escape)
		if n < 0 || c.full() {
			c.add(p)
			return
		}
		c.add(p[:n])
		c.addMark(escape)
		p = p[n+1:]
	}
}

// addEscapes adds the characters of a run of escapes, with short gaps in between, and returns the rest. In some
// languages whole texts are escapes, so it decodes many at once. Half an escape at the end of a cut-off body is
// dropped.
func (c *Chainer) addEscapes(content []byte) (rest []byte) {
	n, i := 0, 0
	for i < len(content) && n <= len(c.decoded)-utf8.UTFMax {
		if content[i] != '\\' {
			gap := shortGap(content[i:])
			if gap == 0 || gap > len(c.decoded)-n {
				break
			}
			for _, b := range content[i : i+gap] {
				c.decoded[n] = b
				n++
			}
			i += gap
			continue
		}
		if i+1 < len(content) && content[i+1] != 'u' {
			c.decoded[n] = jsontext.SimpleEscape(content[i+1])
			n++
			i += 2
			continue
		}
		r, length := jsontext.DecodeEscape(content[i:])
		if length == 0 {
			i = len(content)
			break
		}
		n = len(utf8.AppendRune(c.decoded[:n], r))
		i += length
	}
	c.add(c.decoded[:n])
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
