package answer

import (
	"bytes"
	"testing"
)

// BenchmarkUsage measures the search for usage in each part of a response.
func BenchmarkUsage(b *testing.B) {
	chunk := func(usage string) string {
		return `data: {"id":"cmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"},` +
			`"finish_reason":null}]` +
			usage + "}\n\n"
	}
	const usage = `,"usage":{"prompt_tokens":900,"completion_tokens":7,"total_tokens":907,` +
		`"prompt_tokens_details":{"cached_tokens":800}}`
	answer := `{"choices":[{"message":{"content":"` + string(bytes.Repeat([]byte(`a word, \"another\"\n`), 80)) + `"}}]` +
		usage + `}`
	for _, c := range []struct {
		name  string
		parts []string
	}{
		{"chunk", []string{chunk("")}},
		{"chunkOfNull", []string{chunk(`,"usage":null`)}},
		{"chunkWithUsage", []string{chunk(usage)}},
		{"chunkInHalves", []string{chunk("")[:60], chunk("")[60:]}},
		{"onePiece", []string{answer}}, // without its end
	} {
		b.Run(c.name, func(b *testing.B) {
			var r Reader
			var parts [][]byte
			for _, part := range c.parts {
				parts = append(parts, []byte(part))
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, part := range parts {
					r.Read(part)
				}
			}
			if _, ok := r.Usage(true); ok && !bytes.Contains(parts[0], []byte("tokens")) {
				b.Error("found what is not there")
			}
		})
	}
}

// BenchmarkBegin measures what an answer costs until it has begun, and to judge its end.
func BenchmarkBegin(b *testing.B) {
	for name, parts := range map[string][]string{
		"onePiece": {`{"id":"cmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` +
			`{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9}}`},
		"chat":      {chatRole, chatWord, chatStop + chatUse, done},
		"responses": {responseCreated + responseInProgress + itemAdded + partAdded},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var r Reader
				r.WithoutUsage()
				for _, part := range parts {
					r.Read([]byte(part))
				}
				r.Outcome(true, true)
			}
		})
	}
}
