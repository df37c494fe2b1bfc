package prompt

import (
	"fmt"
	"strings"
	"testing"
)

const longText = 150_000

// A prompt counts whatever fields the body has that engines ignore: of prompts for several APIs the longest counts, not
// their sum.
func TestPromptIsNotHidden(t *testing.T) {
	long := `"` + strings.Repeat("x", longText) + `"`
	for _, c := range []struct {
		body string
		want API
	}{
		{`"messages":[],"prompt":L`, Completions},
		{`"messages":[ ],"prompt":[L]`, Completions},
		{`"messages":{},"prompt":L`, Completions},
		{`"messages":"","prompt":L`, Completions},
		{`"prompt":L,"messages":null`, Completions},
		{`"messages":[],"input":L`, Embeddings},
		{`"messages":[],"input":[{"content":L}]`, Responses},
		{`"messages":[],"inputs":L`, TGI},
		{`"messages":[],"text":L`, SGLang},
		{`"messages":[],"text_input":L`, Triton},
		{`"messages":[],"contents":[{"parts":[{"text":L}]}]`, Gemini},
		{`"prompt":"","input":L`, Embeddings},
		{`"prompt":{},"messages":[L]`, Chat},
		{`"documents":[],"input":L`, Embeddings},
		{`"text_1":"","messages":[],"prompt":[],"inputs":L`, TGI},
		{`"messages":[{}],"prompt":L`, Unknown},
		{`"messages":[""],"inputs":L`, Unknown},
		{`"messages":["hi"],"prompt":L`, Unknown},
		{`"messages":["hi"],"documents":[L]`, Unknown},
		{`"messages":[L],"prompt":L,"input":L,"documents":[L],"inputs":L,"text":L,"contents":[L]`, Unknown},
		{`"messages":[L],"suffix":L,"query":L`, Chat},
	} {
		info, err := Scan([]byte("{"+strings.ReplaceAll(c.body, "L", long)+"}"), true)
		if err != nil || info.API != c.want || info.TextBytes < longText || info.TextBytes > longText+10 {
			t.Errorf("%s: %+v, %v, want API %d", c.body, info, err, c.want)
		}
	}
	ids := `{"messages":["` + strings.Repeat("x", 100) + `"],"prompt":[` + strings.Repeat("1,", 999) + `1]}`
	if info, err := Scan([]byte(ids), true); err != nil || info.TokenIDs != 1000 || info.TextBytes != 0 {
		t.Errorf("tokens: %+v, %v", info, err)
	}
}

// Of prompts for several APIs the path selects the one that is read, unless that is empty or absent.
func TestPathDecides(t *testing.T) {
	const body = `{"messages":["abc"],"prompt":"abcd","input":"abcde","system":"abcdef","inputs":"abcdefgh",` +
		`"max_tokens":4,"max_completion_tokens":3,"max_output_tokens":5,"parameters":{"max_new_tokens":9},"n":2}`
	for _, c := range []struct {
		path API
		body string
		want Info
	}{
		{Chat, body, Info{API: Chat, TextBytes: 3, MaxTokens: 3, N: 2}},
		{Completions, body, Info{API: Completions, TextBytes: 4, MaxTokens: 4, N: 2}},
		{Responses, body, Info{API: Responses, TextBytes: 9, MaxTokens: 5}},
		{Anthropic, body, Info{API: Anthropic, TextBytes: 9, MaxTokens: 4}},
		{Unknown, body, Info{API: Unknown, TextBytes: 9, MaxTokens: 9, N: 2}},
		{
			Chat, `{"messages":["ab"],"suffix":"x","documents":["x"],"text":"x","inputs":"x","contents":["x"],` +
				`"prompt":["x",1],` +
				`"input_ids":[1],"input":"x"}`, Info{API: Chat, TextBytes: 2},
		},
		{Chat, `{"messages":[],"prompt":"ab"}`, Info{API: Completions, TextBytes: 2}},
		{Chat, `{"prompt":"ab"}`, Info{API: Completions, TextBytes: 2}},
		{Anthropic, `{"messages":["ab"]}`, Info{API: Anthropic, TextBytes: 2}},
		{Gemini, `{"messages":["ab"]}`, Info{API: Chat, TextBytes: 2}},
	} {
		got, _, err := ReadAs(c.path, []byte(c.body), true)
		if err != nil || got != c.want {
			t.Errorf("path of %d, %s: %+v, %v, want %+v", c.path, c.body, got, err, c.want)
		}
	}
}

// Limits, and n, count only where the API has them. Of several APIs the highest limit counts, and none if one has none.
func TestLimitsOfTheAPI(t *testing.T) {
	const all = `"max_completion_tokens":%d,"max_tokens":%d,"max_output_tokens":%d,"n":1000`
	for _, c := range []struct {
		body         string
		completion   int
		tokens, outs int
		want, n      int
	}{
		{`"messages":["a"]`, 0, 4000, 1, 4000, 1000},
		{`"messages":["a"]`, 2, 4000, 1, 2, 1000},
		{`"messages":["a"],"system":"b"`, 1, 4000, 2, 4000, 0},
		{`"prompt":"a"`, 1, 4000, 2, 4000, 1000},
		{`"input":[{"content":"a"}]`, 1, 2, 4000, 4000, 0},
		{`"contents":["a"]`, 1, 2, 3, 0, 0},
		{`"inputs":"a","parameters":{"max_new_tokens":7}`, 1, 2, 3, 7, 0},
		{`"text":"a","sampling_params":{"max_new_tokens":7}`, 1, 2, 3, 7, 0},
		{`"text_input":"a"`, 1, 4000, 3, 4000, 0},
		{`"documents":["a"]`, 1, 2, 3, 0, 0},
		{`"messages":["a"],"prompt":"b"`, 2, 4000, 1, 4000, 1000},
		{`"messages":["a"],"inputs":"b"`, 2, 0, 1, 0, 1000},
		{`"model":"m"`, 2, 4000, 1, 4000, 1000},
	} {
		body := "{" + c.body + "," + fmt.Sprintf(all, c.completion, c.tokens, c.outs) + "}"
		got, err := Scan([]byte(body), true)
		if err != nil || got.MaxTokens != c.want || got.N != c.n {
			t.Errorf("%s: %+v, %v, want a limit of %d and n of %d", body, got, err, c.want, c.n)
		}
	}
}
