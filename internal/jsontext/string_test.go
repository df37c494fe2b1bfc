package jsontext_test

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// Wherever a string is in relation to the eight bytes that are examined at once, the result is the same.
func TestString(t *testing.T) {
	for _, c := range []struct {
		text        string
		end, excess int
		st          jsontext.Status
	}{
		{`""`, 2, 0, jsontext.OK},
		{`"abc",`, 5, 0, jsontext.OK},
		{`"é😀"`, 8, 0, jsontext.OK},
		{"\"\xff\x7f\"", 4, 0, jsontext.OK},
		{`"\""`, 4, 1, jsontext.OK},
		{`"\\"x"`, 4, 1, jsontext.OK},
		{`"\"\\\/\b\f\n\r\t"`, 18, 8, jsontext.OK},
		{`"a\nb\nc"`, 9, 2, jsontext.OK},
		{`"\u0041"`, 8, 5, jsontext.OK},
		{`"\u00e9\u4F60x"`, 15, 7, jsontext.OK},
		{`"\ud83d\ude00"`, 14, 8, jsontext.OK},
		{`"\ud83d"`, 8, 4, jsontext.OK}, // counts as half a pair
		{`"\u0041\n\u0041"`, 16, 11, jsontext.OK},
		{`"`, 1, 0, jsontext.Cut},
		{`"abcdefghijk`, 12, 0, jsontext.Cut},
		{`"a\nb`, 5, 1, jsontext.Cut},
		{`"a\`, 2, 0, jsontext.Cut},
		{`"\n\`, 3, 1, jsontext.Cut},
		{`"a\u`, 2, 0, jsontext.Cut},
		{`"a\u12f`, 2, 0, jsontext.Cut},
		{`"\u0041`, 7, 5, jsontext.Cut},
		{`"\u0041\u00`, 7, 5, jsontext.Cut},
		{"\"a\n\"", 2, 0, jsontext.Invalid},
		{"\"\x00", 1, 0, jsontext.Invalid},
		{"\"\\n\x1f\"", 3, 1, jsontext.Invalid},
		{`"a\x"`, 2, 0, jsontext.Invalid},
		{`"\U0041"`, 1, 0, jsontext.Invalid},
		{`"\n\e`, 3, 1, jsontext.Invalid},
		{`"\u00g0"`, 1, 0, jsontext.Invalid},
		{`"\u12"`, 1, 0, jsontext.Invalid},
		{`"\u0041\u+123"`, 7, 5, jsontext.Invalid},
	} {
		for pad := range 20 {
			before, gap := strings.Repeat(" ", pad), strings.Repeat("-", pad)
			text := before + c.text[:1] + gap + c.text[1:]
			want := c.end + 2*pad
			if end, excess, st := jsontext.String([]byte(text), pad); end != want || excess != c.excess || st != c.st {
				t.Errorf("%q: got %d, %d, %d, want %d, %d, %d", text, end, excess, st, want, c.excess, c.st)
			}
		}
	}
}

func TestSkipString(t *testing.T) {
	for _, c := range []struct {
		text, content string
		escaped       bool
		end           int
	}{
		{`"":`, "", false, 2},
		{`"a long enough key":`, "a long enough key", false, 19},
		{`"a\"b\\",`, `a\"b\\`, true, 8},
		{`"\u0041"`, `\u0041`, true, 8},
		{`"a`, "a", false, 2},
		{`"`, "", false, 1},
		{`"a\`, `a\`, true, 3},
		{`"a\"`, `a\"`, true, 4},
		{`"a\u00`, `a\u00`, true, 6},
		{"\"a\x00b\n\"x", "a\x00b\n", false, 6}, // what is invalid is skipped
		{`"\x\"\u12"`, `\x\"\u12`, true, 10},
		{`"\"`, `\"`, true, 3},
		{`"\x`, `\x`, true, 3},
		{"\"\x01\\n\x01\"", "\x01\\n\x01", true, 6},
	} {
		content, escaped, end := jsontext.SkipString([]byte(c.text), 0)
		if string(content) != c.content || escaped != c.escaped || end != c.end {
			t.Errorf("%q: got %q, %v, %d, want %q, %v, %d", c.text, content, escaped, end, c.content, c.escaped, c.end)
		}
	}
}

func TestOpeningQuote(t *testing.T) {
	for _, c := range []struct {
		text string // before the closing quote
		cut  bool
		want int
	}{
		{`{"key`, false, 1},
		{`{"key`, true, 1},
		{`{"a\"b`, false, 1},
		{`{"a\\\"b`, false, 1},
		{`"a","`, true, 4},
		{`"a`, false, 0},
		{`"a`, true, -1}, // the byte before it may have been a backslash
		{`\"a`, true, -1},
		{`\\"a`, true, -1},
		{`,\"a`, true, -1},
		{`a`, false, -1},
		{``, true, -1},
	} {
		if got := jsontext.OpeningQuote([]byte(c.text), c.cut); got != c.want {
			t.Errorf("%s, %v: got %d, want %d", c.text, c.cut, got, c.want)
		}
	}
}
