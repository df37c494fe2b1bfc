package prompt

import (
	"encoding/json"
	"strings"
	"testing"
)

const streamed = `data: {"id":"a","choices":[{"delta":{"content":"\"prompt_tokens\":5, {"}}]}

data: {"id":"a","choices":[],"usage":{"prompt_tokens":1203,"total_tokens":1219,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":1184}}}

data: [DONE]

`

// The usage is found however the response is cut into parts, and nothing else is taken for it.
func TestUsage(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want Usage
		ok   bool
	}{
		"stream":             {streamed, Usage{1203, 1184, 16}, true},
		"spaces":             {"{\"usage\": {\"prompt_tokens\" : 7 , \"completion_tokens\":\n3\n}}", Usage{7, 0, 3}, true},
		"anthropic":          {`{"usage":{"input_tokens":20,"cache_read_input_tokens":12,"output_tokens":4}}`, Usage{20, 12, 4}, true},
		"anthropic, apart":   {`{"usage":{"input_tokens":20,"cache_creation_input_tokens":3,"cache_read_input_tokens":120,"output_tokens":4}}`, Usage{140, 120, 4}, true},
		"more than there is": {`{"usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":120}}}`, Usage{20, 120, 0}, true},
		"none":               {`{"choices":[{"text":"the _tokens\" : 5"}]}`, Usage{}, false},
		"null":               {`{"usage":{"prompt_tokens":null,"prompt_tokens_details":null}}`, Usage{}, false},
		"a string":           {`{"usage":{"prompt_tokens":"12"}}`, Usage{}, false},
		"a fraction":         {`{"usage":{"prompt_tokens":1.5}}`, Usage{}, false},
		"negative":           {`{"usage":{"prompt_tokens":-5}}`, Usage{}, false},
		"huge":               {`{"usage":{"prompt_tokens":99999999999999999999}}`, Usage{}, false},
		"cut off":            {`{"usage":{"prompt_tokens":12`, Usage{}, false},
		"written by it":      {`{"text":"\"prompt_tokens\":5,"}`, Usage{}, false},
		"told each time":     {`{"usage":{"prompt_tokens":9,"completion_tokens":1}}` + `{"usage":{"prompt_tokens":9,"completion_tokens":2}}`, Usage{9, 0, 2}, true},
	} {
		for size := 1; size <= len(c.text)+1; size++ {
			var r UsageReader
			for rest := []byte(c.text); len(rest) > 0; {
				n := min(size, len(rest))
				r.Read(rest[:n])
				rest = rest[n:]
			}
			if got, ok := r.Usage(); got != c.want || ok != c.ok {
				t.Fatalf("%s in parts of %d: %+v, %v; want %+v, %v", name, size, got, ok, c.want, c.ok)
			}
		}
	}
}

// FuzzUsage holds the reader to encoding/json: what a whole answer says is found, in two parts as in one.
func FuzzUsage(f *testing.F) {
	f.Add("text", uint16(12), uint16(3), uint16(9), uint16(20))
	f.Add(`"prompt_tokens":1,`, uint16(0), uint16(0), uint16(0), uint16(0))
	f.Fuzz(func(t *testing.T, text string, prompt, cached, output, at uint16) {
		type details struct {
			Cached uint16 `json:"cached_tokens"`
		}
		body, err := json.Marshal(map[string]any{"a": text, "usage": struct {
			Prompt  uint16  `json:"prompt_tokens"`
			Output  uint16  `json:"completion_tokens"`
			Details details `json:"prompt_tokens_details"`
		}{prompt, output, details{cached}}, "z": text})
		if err != nil {
			t.Fatal(err)
		}
		n := int(at) % len(body)
		var r UsageReader
		r.Read(body[:n])
		r.Read(body[n:])
		if got, ok := r.Usage(); !ok || got != (Usage{int(prompt), int(cached), int(output)}) {
			t.Fatalf("%s cut at %d: %+v, %v", body, n, got, ok)
		}
	})
}

func BenchmarkUsage(b *testing.B) {
	chunk := []byte(`data: {"id":"cmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"},"finish_reason":null}]}` + "\n\n")
	var r UsageReader
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		r.Read(chunk)
	}
	if _, ok := r.Usage(); ok || strings.Contains(string(chunk), "usage") {
		b.Error("found what is not there")
	}
}
