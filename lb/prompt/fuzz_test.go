package prompt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"unicode/utf8"
)

// FuzzScan holds Scan equal to encoding/json: what is valid, what the model is, and that a key is there twice.
func FuzzScan(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"model":"a","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"stream":true}`,
		`{"mod\u0065l":"\ud83d\ude00","prompt":[1,2.5e-3],"tools":[{"a":null}]}`, `{"model":"a","model":"b"}`,
		`{"a":{"b":[true,false,null,-0.1E+2]},"x":"\"\\\/\b\f\n\r\t"}`, `{"a":`, "{\"a\":\"\x00\"}", `[]`, "\ufeff{}",
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, complete bool) {
		got, err := Scan(body, complete)
		if got.TextBytes < 0 || got.TextBytes > len(body) || got.TokenIDs > len(body) || len(got.Model) > len(body) {
			t.Fatalf("%q: impossible %s", body, show(got))
		}
		if !complete {
			if _, whole := Scan(body, true); whole == nil && err != nil {
				t.Fatalf("%q: good as a whole, as a beginning %v", body, err)
			}
			return
		}
		want, twice, valid := reference(body)
		switch {
		case errors.Is(err, ErrAmbiguous):
			if valid && !twice {
				t.Fatalf("%q: no key is there twice", body)
			}
		case valid != (err == nil):
			t.Fatalf("%q: got %v, valid %v", body, err, valid)
		case valid && twice:
			t.Fatalf("%q: a key is there twice", body)
		case valid && !equal(got, want):
			t.Fatalf("%q: got %s, want %s", body, show(got), show(want))
		}
	})
}

// reference reads model, stream and max_tokens with encoding/json, and tells whether a field is there twice.
func reference(body []byte) (want Info, twice, valid bool) {
	if !json.Valid(body) || bytes.TrimLeft(body, " \t\r\n")[0] != '{' {
		return want, false, false
	}
	want, _ = Scan(body, true) // for the members that encoding/json does not tell
	want.Model, want.Stream = nil, false
	d := json.NewDecoder(bytes.NewReader(body))
	if _, err := d.Token(); err != nil {
		return want, false, false
	}
	seen := make(map[field]bool)
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return want, false, false
		}
		x := fieldOf([]byte(key.(string)))
		twice = twice || x != fieldOther && seen[x]
		seen[x] = true
		var text string
		switch {
		case x == fieldModel && json.Unmarshal(value, &text) == nil && value[0] == '"':
			want.Model = []byte(text)
		case x == fieldStream:
			want.Stream = string(value) == "true"
		}
	}
	return want, twice, true
}

// equal compares all of two results. A model that is not UTF-8 is replaced by encoding/json and kept by Scan.
func equal(a, b Info) bool {
	if string(a.Model) != string(b.Model) && utf8.Valid(a.Model) {
		return false
	}
	a.Model, b.Model = nil, nil
	return fmt.Sprint(a) == fmt.Sprint(b)
}

func show(i Info) string { return fmt.Sprintf("{model %q, %+v}", i.Model, i) }
