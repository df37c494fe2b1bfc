package jsontext_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/internal/jsontext"
)

// FuzzString compares strings with encoding/json: whether one is valid, where it ends and what its text is. A cut-off
// string is one that some continuation makes valid.
func FuzzString(f *testing.F) {
	for _, s := range []string{
		`""`, `"plain" x`, `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83d"`, `"a\u12`, `"a\`, "\"\x1f\"", `"\x"`, "\"\xff\"",
		`"a string of some length, \"quoted\", and an end`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) == 0 || text[0] != '"' {
			return
		}
		end, excess, st := jsontext.String(text, 0)
		content, escaped, skipped := jsontext.SkipString(text, 0)
		if st != jsontext.OK {
			if json.Valid(text) {
				t.Fatalf("%q: valid, got status %d at %d", text, st, end)
			}
			if ok := completed(text); ok != (st == jsontext.Cut) {
				t.Fatalf("%q: can be completed: %v, got status %d at %d", text, ok, st, end)
			}
			if st == jsontext.Cut && (skipped != len(text) || !bytes.Equal(content, text[1:])) {
				t.Fatalf("%q: skipped %d bytes, %q", text, skipped, content)
			}
			return
		}
		var want string
		if err := json.Unmarshal(text[:end], &want); err != nil {
			t.Fatalf("%q: %d bytes accepted, but %v", text, end, err)
		}
		if skipped != end || !bytes.Equal(content, text[1:end-1]) || escaped != (excess > 0) {
			t.Fatalf("%q: skipped %d bytes, %q, escapes %v", text, skipped, content, escaped)
		}
		if open := jsontext.OpeningQuote(text[:end-1], false); open != 0 {
			t.Fatalf("%q: begins at %d", text, open)
		}
		checkText(t, content, want, excess)
	})
}

// completed reports whether some continuation of the text is a valid string.
func completed(text []byte) bool {
	for _, rest := range []string{`"`, `\"`, `n"`, `u0000"`, `0"`, `00"`, `000"`, `0000"`} {
		whole := append(bytes.Clone(text), rest...)
		if end := bytes.LastIndexByte(whole, '"') + 1; json.Valid(whole[:end]) {
			return true
		}
	}
	return false
}

// checkText checks the text of a valid string's content, of which want is the text without invalid UTF-8.
func checkText(t *testing.T, content []byte, want string, excess int) {
	t.Helper()
	got := jsontext.AppendUnescaped(nil, content)
	if string([]rune(string(got))) != want {
		t.Fatalf("%q: got %q, want %q", content, got, want)
	}
	length := jsontext.UnescapedLen(content)
	if length != len(content)-excess {
		t.Fatalf("%q: lengths %d and %d", content, length, len(content)-excess)
	}
	halves := strings.Count(string(got), "\ufffd") // or U+FFFD itself, or an unpaired surrogate, which counts less
	if length > len(got) || length < len(got)-halves {
		t.Fatalf("%q: length %d, of %q %d", content, length, got, len(got))
	}
}

// FuzzSkipValue compares the end of a valid value, and whether numbers and literals are valid, with encoding/json. For
// any text the functions end, within the text.
func FuzzSkipValue(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,-2.5e+3,true,false,null,"x\u00e9"],"b":{}} x`, `[]`, `12 `, `01`, `-`, `1.5e`, `tru`, `{"a":`, `]`, `"\"`,
		"\"\x01\\", `[1,]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		end, tokens := jsontext.SkipValue(text, 0, len(text)+1)
		if end > len(text) || tokens > end || jsontext.AfterKey(text, end) > len(text) {
			t.Fatalf("%q: end %d, %d tokens", text, end, tokens)
		}
		number, _, st := jsontext.Number(text, 0)
		if st == jsontext.OK && !json.Valid(text[:number]) {
			t.Fatalf("%q: not a number", text[:number])
		}
		literal := false
		for _, word := range []string{"true", "false", "null"} {
			_, st := jsontext.Literal(bytes.TrimLeft(text, " \t\r\n"), 0, word)
			literal = literal || st == jsontext.OK
		}
		if !json.Valid(text) {
			return
		}
		value := bytes.Trim(text, " \t\r\n")
		if end, _ = jsontext.SkipValue(append(bytes.Clone(value), ",1]"...), 0, len(text)); end != len(value) {
			t.Fatalf("%q: end %d", value, end)
		}
		number, _, st = jsontext.Number(value, 0)
		isNumber := value[0] == '-' || value[0]-'0' <= 9
		if isNumber != (st == jsontext.OK && number == end) || bytes.Contains([]byte("tfn"), value[:1]) != literal {
			t.Fatalf("%q: number to %d, status %d, literal %v", value, number, st, literal)
		}
	})
}
