package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/streamtest"
	"github.com/warmgate/warmgate/plugin/stats"
)

// post sends a body to a path and lets it be answered as a whole. It returns the work then in flight, and which
// share of the prompt was expected to be cached.
func (d *fakeDriver) post(path, body, answer string) (work int64, match string) {
	c := d.client(0, streamtest.Request{Path: path, Frames: []string{body}})
	work = d.Load(0).Tokens
	c.Head(200)
	c.Data(answer)
	c.Finish()
	return work, c.Result().Headers["x-warmgate-match"]
}

// However the name of a model is escaped, it is one model.
func TestModelsByName(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	text := strings.Repeat("x", 4000)
	for i, name := range []string{`"model-a"`, `"\u006dodel-a"`, `"model\u002da"`, `"model-\u0061"`} {
		d.post("", `{"model":`+name+`,"prompt":"`+text+`"}`, `{"usage":{"prompt_tokens":1000,"completion_tokens":9}}`)
		names := map[uint64]bool{}
		for key := range d.workers[0].vm.Prompts.Models {
			if key.Model != 0 {
				names[key.Model] = true
			}
		}
		if len(names) != 1 {
			t.Errorf("%d spellings of a model are %d models", i+1, len(names))
		}
	}
}

// The arguments that a model gives a tool are not read as usage, whatever they look like.
func TestArgumentsAreNoUsage(t *testing.T) {
	const use = `{"content":[{"type":"tool_use","input":{"usage":{"input_tokens":1000,"cache_read_input_tokens":900},` +
		`"cached_tokens": 900}}],` +
		`"usage":{"input_tokens":1000,"output_tokens":9}}`
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	d.post("/v1/messages", promptBody(0), use)
	for number := range 40 {
		for range 2 {
			d.post("/v1/messages", promptBody(number), `{"usage":{"input_tokens":1000,"output_tokens":9}}`)
			d.advance(time.Second)
		}
	}
	if got := d.Gauge(stats.Retention + ";cluster=" + fakeCluster); got != 600 && got != 0 {
		t.Errorf("caches are estimated to keep prompts for %d s, want 600", got)
	}
	if got := d.Counter(stats.Cached); got != 0 {
		t.Errorf("%d tokens count as cached", got)
	}
}

// If the server puts stored turns in front of the new one, requests match only if those are the same, and their tokens
// do not count as expected to be cached.
func TestContinuedConversations(t *testing.T) {
	const answer = `{"usage":{"input_tokens":9000,"output_tokens":9,"input_tokens_details":{"cached_tokens":200}}}`
	for _, by := range []string{
		`"previous_response_id":"%s"`, `"conversation":"%s"`, `"conversation":{"id":"%s"}`,
		`"prompt":{"id":"%s"}`,
	} {
		d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
		turn := func(id string) string {
			body := `{"input":"` + strings.Repeat("go on ", 300) + `",` + fmt.Sprintf(by, id) + `}`
			_, match := d.post("/v1/responses", body, answer)
			return match
		}
		turn("resp_1")
		if match := turn("resp_2"); match != "0.00" {
			t.Errorf("%s: %s of another conversation counts as cached", by, match)
		}
		if match := turn("resp_1"); match != "1.00" {
			t.Errorf("%s: %s of the same conversation counts as cached", by, match)
		}
		if got := d.Counter(stats.Expected); got != 0 {
			t.Errorf("%s: %d tokens are expected of a prompt that was seen in part", by, got)
		}
	}
}

// Pictures count as tokens without text: the bytes per token are not learned from them.
func TestMediaAreNotLearnedFrom(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	text := func(letter string) string {
		return `{"messages":[{"role":"user","content":"` + strings.Repeat(letter, 16000) + `"}],"max_tokens":1}`
	}
	before, _ := d.post("", text("x"), `{}`)
	for i := range 60 {
		picture := fmt.Sprintf(`{"messages":[{"role":"user","content":[{"type":"image_url",`+
			`"image_url":{"url":"https://a/%d.png"}},`+
			`{"type":"text","text":"%s"}]}],"max_tokens":1}`, i, strings.Repeat("y", 600+i))
		d.post("", picture, `{"usage":{"prompt_tokens":2500,"completion_tokens":1}}`)
	}
	if after, _ := d.post("", text("z"), `{}`); after != before {
		t.Errorf("a text of %d tokens counts %d after 60 pictures", before, after)
	}
}

// The usage covers all answers to a request together.
func TestSeveralAnswers(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	d.post("", strings.TrimSuffix(promptBody(1), "}")+`,"n":4}`, `{"usage":{"prompt_tokens":1000,"completion_tokens":400}}`)
	if got := d.outputs(); got != 100 {
		t.Errorf("answers are estimated to have %g tokens, want 100", got)
	}
}

// Prompts of every API count, with that API's limit on the answer, and match when they come again.
func TestPromptsOfEveryAPI(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	for i, c := range []struct{ path, body string }{
		{"/generate", `{"text":"T","sampling_params":{"max_new_tokens":7}}`},
		{"/generate", `{"text":["T"],"sampling_params":{"max_new_tokens":7}}`},
		{"/generate", `{"input_ids":[` + strings.Repeat("1234,", 999) + `1],"sampling_params":{"max_new_tokens":7}}`},
		{"/generate", `{"inputs":"T","parameters":{"max_new_tokens":7}}`},
		{"/v2/models/m/generate", `{"text_input":"T","max_tokens":7}`},
		{"/v2/models/m/generate", `{"text_input":"T","parameters":{"max_tokens":7}}`},
		{"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"T"}]}],` +
			`"generationConfig":{"maxOutputTokens":7}}`},
		{"/v1beta/models/m:generateContent", `{"system_instruction":{"parts":[{"text":"T"}]},"contents":[],` +
			`"generation_config":{"max_output_tokens":7}}`},
	} {
		body := strings.ReplaceAll(c.body, `"T"`, `"`+strings.Repeat(fmt.Sprintf("%08d", i), 500)+`"`)
		work, _ := d.post(c.path, body, `{}`)
		if work < 1000 || work > 1020 {
			t.Errorf("%.90s: %d tokens in flight, want 1000 of the prompt and 7 of the answer", c.path+c.body, work)
		}
		if _, match := d.post(c.path, body, `{}`); match < "0.90" {
			t.Errorf("%.90s: %s of the prompt counts as cached the second time", c.path+c.body, match)
		}
	}
}

// Text in fields that the API does not read does not count.
func TestTextThatNoEngineReads(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	for _, field := range []string{"suffix", "documents", "text", "inputs", "prompt", "input"} {
		body := fmt.Sprintf(`{"messages":[{"role":"user","content":"hi"}],"max_tokens":1,%q:["%s"]}`, field,
			strings.Repeat("x", 250_000))
		if work, _ := d.post("", body, `{}`); work > 10 {
			t.Errorf("a chat with %s: %d tokens in flight, want next to nothing", field, work)
		}
	}
}

// A prompt counts whatever fields are beside it: engines ignore fields that their API does not have.
func TestPromptBesideOtherFields(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	for _, c := range []struct{ path, body string }{
		{"/v1/completions", `"messages":[],"prompt":"T"`},
		{"/v1/completions", `"messages":["hi"],"prompt":"T"`},
		{"/v1/chat/completions", `"messages":["T"],"prompt":"hi"`},
		{"/v1/responses", `"messages":["hi"],"input":"T"`},
		{"/v1/embeddings", `"messages":[],"input":"T"`},
		{"/v1/embeddings", `"prompt":"","input":"T"`},
		{"/v1/embeddings", `"documents":[],"input":"T"`},
		{"/generate", `"messages":[],"inputs":"T"`},
		{"/generate", `"messages":["hi"],"inputs":"T"`},
	} {
		body := `{` + strings.ReplaceAll(c.body, `"T"`, `"`+strings.Repeat("x", 150_000)+`"`) + `,"max_tokens":10}`
		if work, _ := d.post(c.path, body, `{}`); work < 37_500 || work > 40_000 {
			t.Errorf("%s {%s}: %d tokens in flight, want 37500 of the prompt", c.path, c.body, work)
		}
	}
}

// Limits and numbers of answers that the API does not have have no effect.
func TestLimitsOfOtherAPIs(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	for _, c := range []struct{ path, body, other string }{
		{"/v1/chat/completions", `"messages":["hi"],"max_tokens":40`, `"max_output_tokens":1`},
		{"/v1/completions", `"prompt":"hi","max_tokens":40`, `"max_completion_tokens":1`},
		{"/v1/messages", `"messages":["hi"],"max_tokens":40`, `"max_completion_tokens":1`},
		{"/v1/responses", `"input":"hi","max_output_tokens":40`, `"max_tokens":1`},
	} {
		alone, _ := d.post(c.path, `{`+c.body+`}`, `{}`)
		if work, _ := d.post(c.path, `{`+c.body+`,`+c.other+`}`, `{}`); alone < 40 || work != alone {
			t.Errorf("%s with %s: %d tokens in flight, %d without", c.path, c.other, work, alone)
		}
	}
	const answer = `{"usage":{"input_tokens":1000,"output_tokens":400}}`
	d = startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	d.post("/v1/responses", `{"input":"hi","n":1000}`, answer)
	if got := d.outputs(); got != 400 {
		t.Errorf("answers are estimated to have %g tokens, want 400", got)
	}
	before := d.outputs()
	d.post("/generate", `{"text":"hi","messages":["hi"],"n":4}`, answer)
	if got := d.outputs(); got != before {
		t.Errorf("answers are estimated to have %g tokens, want %g as before: their number is not known", got, before)
	}
}

// The bytes per token are not learned from a body if it is unknown which part of it the engine has read.
func TestUnknownTextIsNotLearnedFrom(t *testing.T) {
	d := startFake(t, 1, 1, fmt.Sprintf(prefixConfig, 0))
	text := func(letter string) string {
		return `{"text":"` + strings.Repeat(letter, 16000) + `","sampling_params":{"max_new_tokens":1}}`
	}
	before, _ := d.post("/generate", text("x"), `{}`)
	for i := range 60 {
		unread := fmt.Sprintf(`{"text":"hi there","inputs":"%d%s"}`, i, strings.Repeat("y", 8000))
		d.post("/generate", unread, `{"usage":{"prompt_tokens":1000,"completion_tokens":1}}`)
	}
	if after, _ := d.post("/generate", text("z"), `{}`); after != before {
		t.Errorf("a text of %d tokens counts %d after 60 bodies with prompts of two APIs", before, after)
	}
}
