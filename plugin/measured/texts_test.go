package measured

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb/price"
)

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "llama-3": "llama-3", "a\xff": "a\uFFFD", strings.Repeat("x", 100): strings.Repeat("x", MaxModel),
		strings.Repeat("x", MaxModel-1) + "ü": strings.Repeat("x", MaxModel-1),
		strings.Repeat("\x80", 100):           strings.Repeat("\uFFFD", MaxModel),
	} {
		if got := Clean(text); len(text) < 100 && got != want || !utf8.ValidString(got) || len(got) > 3*MaxModel {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever fields say, they stand between quotes in a line that is JSON, and are JSON by themselves.
func TestQuotedFieldsAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, number := rapid.String().Draw(t, "text"), rapid.Float64Range(-1e15, 1e15).Draw(t, "number")
		b := AppendQuoted(nil, []Field{{Name: "text", Text: "x" + text}, {Name: "number", Number: number}})
		var outer struct{ Of string }
		if err := json.Unmarshal([]byte(`{"of":"`+string(b)+`"}`), &outer); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		var got struct {
			Text   string
			Number float64
		}
		if err := json.Unmarshal([]byte(outer.Of), &got); err != nil || got.Text != "x"+text || got.Number != number {
			t.Fatalf("%s: %+v, %v", b, got, err)
		}
	})
}

func BenchmarkFields(b *testing.B) {
	m := Request{
		Endpoint: "10.0.0.1:8000", Policy: "prefix_cache", Model: "llama-3", Operation: "chat", TTFT: 1e9, Prefill: 1e9,
		Decode: 1e9, PerToken: 1e6, GapP99: 1e6, Duration: 1e10,
		Tokens: price.Tokens{Input: 100, Cached: 800, Output: 140},
		Match:  0.5, Matches: true, RunnerUp: "10.0.0.2:8000", LostBy: 1, Rule: "cost", Reason: "chosen",
	}
	var list []Field
	var text []byte
	b.ReportAllocs()
	for b.Loop() {
		list = m.Fields(list[:0], true)
		text = AppendStruct(text[:0], list)
	}
}
