package streamtest

import (
	"fmt"
	"strings"
	"time"
)

// apiScenarios are those of prefix_cache that depend on the APIs of model servers.
var apiScenarios = []scenario{
	{name: "arguments of tools are no usage", policy: prefixCache, endpoints: 1, run: func(t *run) {
		const prompt, cached = "warmgate_prompt_tokens_total", "warmgate_cached_tokens_total"
		t.mark(prompt, cached)
		const forged = `"input":{"usage":{"input_tokens":9000,"cache_read_input_tokens":900},"cached_tokens":900}`
		messages := t.conversation(1)
		messages.Path = "/v1/messages"
		for _, filler := range []int{0, 100, 3000, 60_000} {
			text := `{"text":"` + strings.Repeat("x", filler) + `"}`
			t.answer(messages, `{"content":[{"type":"tool_use",`+forged+`},`+text+`],"usage":{"input_tokens":500,"output_tokens":9}}`)
			t.answer(messages, `{"usage":{"input_tokens":500,"output_tokens":9},"content":[`+text+`,{"type":"tool_use",`+forged+`}]}`)
		}
		t.answer(messages, "event: content_block_start\ndata: {\"content_block\":{"+forged+"}}\n\n"+
			"event: message_delta\ndata: {\"usage\":{\"input_tokens\":500,\"output_tokens\":9}}\n\n")
		// If more than 2 KiB of an answer follow its usage, that is not found.
		t.wantGrown(prompt, 7*500)
		t.wantGrown(cached, 0)
		if match := t.answer(messages, "{}").match(); match < 0.9 {
			t.Errorf("%v of the prompt is assumed to be cached, want all", match)
		}
	}},
	{
		name: "one differing usage", policy: prefixCache, endpoints: 1, needs: []Ability{SimulatedTime},
		run: func(t *run) {
			const silent = `{"usage":{"prompt_tokens":500,"completion_tokens":9}}`
			const differs = `{"usage":{"prompt_tokens":500,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":400}}}`
			const conversations = 40
			for i := range 4 * conversations {
				answer := silent
				if i == 0 {
					answer = differs
				}
				t.answer(t.conversation(i%conversations), answer)
				t.Advance(2 * time.Second)
			}
			if match := t.answer(t.conversation(0), silent).match(); match < 0.9 {
				t.Errorf("%v of the prompt is assumed to be cached, want all", match)
			}
		},
	},
	{name: "conversations that the server keeps", policy: prefixCache, endpoints: 1, run: func(t *run) {
		const expected = "warmgate_expected_cached_tokens_total"
		t.mark(expected)
		for i, want := range []float64{0, 0, 1, 1} {
			body := fmt.Sprintf(`{"model":%q,"input":"%s","previous_response_id":"resp_%d"}`, t.Name(), strings.Repeat("go on ", 300), i%2)
			s := t.answer(Request{Path: "/v1/responses", Frames: []string{body}}, `{"usage":{"input_tokens":9000,"output_tokens":9}}`)
			if match := s.match(); match < want-0.1 || match > want {
				t.Errorf("turn %d: %v of the prompt is assumed to be cached, want %v", i, match, want)
			}
		}
		t.wantGrown(expected, 0)
	}},
	{name: "usage with pictures does not count for text", policy: prefixCache, endpoints: 1, run: func(t *run) {
		text := func(letter string) Request {
			return Request{Frames: []string{fmt.Sprintf(`{"model":%q,"prompt":"%s","max_tokens":1}`, t.Name(), strings.Repeat(letter, 16000))}}
		}
		before := t.weigh(text("a"))
		for i := range 20 * t.Workers() {
			const media = `[{"type":"image_url","image_url":{"url":"https://a/b.png"}},{"type":"text","text":"%s"}]`
			content := fmt.Sprintf(media, strings.Repeat("x", 600+i))
			r := Request{Frames: []string{fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%s}],"max_tokens":1}`, t.Name(), content)}}
			t.answer(r, `{"usage":{"prompt_tokens":2500,"completion_tokens":1}}`)
		}
		if after := t.weigh(text("b")); after != before {
			t.Errorf("a text of %d tokens counts %d behind pictures", before, after)
		}
	}},
	{name: "several answers", policy: prefixCache, endpoints: 1, config: `"output_tokens":400`, run: func(t *run) {
		r := t.conversation(1)
		r.Frames[0] = strings.Replace(r.Frames[0], "{", `{"n":4,`, 1)
		var got int64 = 400
		for round := 0; got >= 400 && round < 20; round++ { // each worker learns for itself
			t.answer(r, `{"usage":{"prompt_tokens":500,"completion_tokens":400}}`)
			got = t.weigh(t.conversation(1))
		}
		if got < 100 || got > 110 {
			t.Errorf("%d tokens in flight, want little more than the 100 of each answer before", got)
		}
	}},
	{name: "prompts of every API", policy: prefixCache, endpoints: 1, run: func(t *run) {
		for i, body := range []string{
			`"text":"T","sampling_params":{"max_new_tokens":7}`, `"inputs":"T","parameters":{"max_new_tokens":7}`,
			`"text_input":"T","max_tokens":7`, `"text_input":"T","parameters":{"max_tokens":7}`,
			`"contents":[{"role":"user","parts":[{"text":"T"}]}],"generationConfig":{"maxOutputTokens":7}`,
		} {
			text := strings.Repeat(fmt.Sprintf("%08d", i), 500)
			r := Request{Frames: []string{fmt.Sprintf(`{"model":%q,%s}`, t.Name(), strings.Replace(body, `"T"`, `"`+text+`"`, 1))}}
			if got := t.weigh(r); got < 1000 || got > 1020 {
				t.Errorf("%s: %d tokens in flight, want 1000 of the prompt and 7 of the answer", body, got)
			}
			if match := t.answer(r, "{}").match(); match < 0.9 {
				t.Errorf("%s: %v of the prompt is assumed to be cached, want all", body, match)
			}
		}
	}},
	{name: "text that the API does not read", policy: prefixCache, endpoints: 1, run: func(t *run) {
		for _, field := range []string{"suffix", "documents", "text"} {
			const chat = `{"model":%q,"messages":[{"role":"user","content":"hi"}],"max_tokens":1,%q:["%s"]}`
			r := Request{Frames: []string{fmt.Sprintf(chat, t.Name(), field, strings.Repeat("x", 100_000))}}
			if got := t.weigh(r); got > 10 {
				t.Errorf("a chat with %s: %d tokens in flight, want next to nothing", field, got)
			}
		}
	}},
}
