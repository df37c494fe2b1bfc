package jsontext_test

import (
	"testing"

	"github.com/warmgate/warmgate/internal/jsontext"
)

func TestUnescape(t *testing.T) {
	for _, c := range []struct {
		content, want string
		length        int // as counted without decoding, 0 if it is that of want
	}{
		{content: ``, want: ""},
		{content: `plain`, want: "plain"},
		{content: `a\/b\u4f60\ud83d\ude00\"\n\t\r\b\f\\`, want: "a/b你😀\"\n\t\r\b\f\\"},
		{content: `\u0000\u00e9\u007F|`, want: "\x00é\x7f|"},
		{content: `\uD83D\uDE00\uFFFF`, want: "😀\uffff"},
		{content: "a\xff\\n\xe4", want: "a\xff\n\xe4"},
		{content: `\ud83d\u0041\ude00`, want: "\ufffdA\ufffd", length: 5}, // unpaired halves
		{content: `\ud83d\ud83d\ude00`, want: "\ufffd😀", length: 6},
		{content: `\ud83d`, want: "\ufffd", length: 2},
		{content: `\ud83dx`, want: "\ufffdx", length: 3},
		{content: `\ud83d\n`, want: "\ufffd\n", length: 3},
		{content: `a\`, want: "a\ufffd", length: 2}, // cut off
		{content: `\u004`, want: "\ufffd", length: 4},
		{content: `\ud83d\ude0`, want: "\ufffd\ufffd", length: 6},
		{content: `\u00zz.`, want: "\ufffd.", length: 2}, // invalid
		{content: `\x.`, want: "\ufffd.", length: 2},
		{content: `\ud83d\uzzzz.`, want: "\ufffd\ufffd.", length: 4},
	} {
		if got := jsontext.AppendUnescaped([]byte("+"), []byte(c.content)); string(got) != "+"+c.want {
			t.Errorf("%s: got %q, want %q", c.content, got, "+"+c.want)
		}
		if c.length == 0 {
			c.length = len(c.want)
		}
		if got := jsontext.UnescapedLen([]byte(c.content)); got != c.length {
			t.Errorf("%s: length %d, want %d", c.content, got, c.length)
		}
	}
}

func TestDecodeEscape(t *testing.T) {
	for _, c := range []struct {
		text   string
		want   rune
		length int
	}{
		{`\n`, '\n', 2},
		{`\/x`, '/', 2},
		{`\u00e9x`, 'é', 6},
		{`\ud83d\ude00x`, '😀', 12},
		{`\ude00\ud83d`, 0xfffd, 6},
		{`\ud83d\ude0`, 0xfffd, 6},
		{`\`, 0xfffd, 0},
		{`\u`, 0xfffd, 0},
		{`\u00e`, 0xfffd, 0},
		{`\u00eg`, 0xfffd, 6},
		{`\x00`, 0xfffd, 2},
	} {
		if got, length := jsontext.DecodeEscape([]byte(c.text)); got != c.want || length != c.length {
			t.Errorf("%s: got %U, %d, want %U, %d", c.text, got, length, c.want, c.length)
		}
	}
	for b := range 256 {
		want := rune(jsontext.SimpleEscape(byte(b)))
		if got, length := jsontext.DecodeEscape([]byte{'\\', byte(b), '0'}); want != 0 && (got != want || length != 2) {
			t.Errorf("%q: got %U, %d, want %U", b, got, length, want)
		}
	}
}
