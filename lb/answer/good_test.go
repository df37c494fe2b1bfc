package answer

import (
	"slices"
	"strings"
	"testing"
)

const chat = "/v1/chat/completions"

// goodAnswers are answers as engines send them, to calls with the path in front. None of them has failed.
var goodAnswers = map[string][]string{
	chat: {
		`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},` +
			`"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":1}}`,
		"{\n  \"choices\": [\n    {\n      \"message\": {\n        \"content\": \"Hi\"\n      }\n    }\n  ]\n}\n",
		// a model may say nothing
		`{"choices":[{"message":{"role":"assistant","content":""},"finish_reason":"stop"}],"usage":null}`,
		`{"choices":[{"message":{"role":"assistant","content":null},"finish_reason":"content_filter"}]}`,
		`{"choices":[{"message":{"content":""},"finish_reason":"length"}],"usage":{"prompt_tokens":9,` +
			`"completion_tokens":0}}`,
		`{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0}}`,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f",` +
			`"arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
		`{"choices":[{"message":{"content":null,"refusal":"I cannot"}}]}`,
		`{"choices":[{"message":{"content":null,"audio":{"id":"a","data":"UklGRg=="}}}]}`,
		`{"choices":[{"message":{"content":null,"reasoning_content":"Hm"}}]}`,
		`{"choices":[{"message":{"content":"Hi"}}],"detail":null,"errors":[],"code":0,"error":null}`,
		`{"object":"list","data":[],"has_more":false}`, // stored answers
		chatRole + chatWord + chatStop + done,
		chatRole + chatStop + chatUse + done,
		chatRole + heartbeat + "data: {\"n\":1}\n\n" + chatWord + "data: {\"n\":1}\n\n" + chatStop + done,
		chatWord + chatWord + chatUse,
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\"," +
			"\"arguments\":\"\"}}]}}]}\n\n" + chatStop + done,
		"data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n" + chatRole + chatStop + done,
		": keep-alive\n\n" + chatRole + chatWord + chatStop + done,
	},
	"/v1/completions": {
		`{"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":9,"completion_tokens":0}}`,
		`{"choices":[{"text":"a"},{"text":""}]}`,
		`{"choices":[{"text":"","logprobs":{"tokens":["a"],"token_logprobs":[-1]}}]}`,
		"data: {\"choices\":[{\"text\":\" a\"}]}\n\ndata: {\"choices\":[{\"text\":\"\"," +
			"\"finish_reason\":\"stop\"}]}\n\n" + done,
		// llama.cpp
		`{"index":0,"content":"","tokens":[],"stop":true,"tokens_predicted":0,"tokens_evaluated":9,"stop_type":"limit"}`,
	},
	"/v1/responses?beta=true": {
		`{"id":"r","object":"response","status":"completed","error":null,"output":[{"type":"message","content":[]}]}`,
		`{"id":"r","object":"response","status":"queued","error":null,"output":[]}`,
		`{"id":"r","object":"response","status":"incomplete","output":[],"usage":{"input_tokens":0}}`,
		responseCreated + responseInProgress + keepAlive + itemAdded + partAdded +
			"data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n" +
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" +
			"{\"status\":\"completed\"}}\n\n",
		responseCreated + "event: response.incomplete\ndata: {\"type\":\"response.incomplete\",\"response\":" +
			"{\"status\":\"incomplete\"}}\n\n",
	},
	"/v1/messages": {
		`{"type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}`,
		`{"type":"message","content":[],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":0}}`,
		`{"type":"message","content":[],"stop_reason":"max_tokens","usage":{"input_tokens":0,"output_tokens":0}}`,
		`{"type":"message","content":[{"type":"tool_use","id":"t","name":"f","input":{}}],"stop_reason":"tool_use"}`,
		messageStart + ping + blockStart + "event: content_block_stop\ndata: {\"type\":\"content_block_stop\"}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
		messageStart + "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"Hi\"}}\n\nevent: message_stop\n" +
			"data: {}\n\n",
	},
	"/v1beta/models/m:generateContent": {
		`{"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"},"finishReason":"STOP"}]}`,
		`{"candidates":[{"content":{"role":"model"},"finishReason":"MAX_TOKENS"}],"usageMetadata":{}}`,
		`{"usageMetadata":{"promptTokenCount":3},"modelVersion":"m"}`,
		`{"promptFeedback":{"blockReason":"SAFETY"}}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]}`,
	},
	"/v1beta/models/m:streamGenerateContent?alt=sse": {
		"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\"}]}\n\n",
		"[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}]}\n,\r\n{\"candidates\":[{\"finishReason\":" +
			"\"STOP\"}]}]",
	},
	"/api/chat": {
		"{\"message\":{\"content\":\"\"},\"done\":false}\n{\"message\":{\"content\":\"a\"},\"done\":false}\n" +
			"{\"message\":{\"content\":\"\"},\"done\":true,\"done_reason\":\"stop\"}\n",
		"{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]},\"done\":false}\n" +
			"{\"message\":{\"content\":\"\"},\"done\":true}\n",
		`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"load"}`,
	},
	"/api/generate": {
		`{"model":"m","response":"","done":true,"done_reason":"unload"}`,
		"{\"response\":\"\",\"done\":false}\n{\"response\":\"a\",\"done\":false}\n{\"response\":\"\",\"done\":true," +
			"\"context\":[1,2]}\n",
	},
	"/generate": {
		`{"generated_text":""}`, `[{"generated_text":"a"}]`, // TGI
		`{"text":"","output_ids":[],"meta_info":{"id":"x","finish_reason":{"type":"length","length":0}}}`, // SGLang
		`[{"text":"a","meta_info":{}},{"text":"b","meta_info":{}}]`,
		`{"text":["the prompt"]}`, // vLLM's demo
		"data: {\"text\":\"\",\"meta_info\":{\"finish_reason\":null}}\n\ndata: {\"text\":\"a\",\"meta_info\":" +
			"{\"finish_reason\":{\"type\":\"stop\"}}}\n\n" + done,
	},
	"/generate_stream": {
		"data:{\"token\":{\"text\":\"a\"},\"generated_text\":null}\n\ndata:{\"token\":{\"text\":\"\"}," +
			"\"generated_text\":\"\"}\n\n",
	},
	"/completion": {
		`{"content":"","tokens":[],"stop":true,"tokens_evaluated":12,"stop_type":"limit"}`, // n_predict: 0
		"data: {\"content\":\"\",\"stop\":false}\n\ndata: {\"content\":\"\",\"stop\":true}\n\n",
	},
	"/infill":                  {`{"content":"a","stop":true}`},
	"/v2/models/m/generate":    {`{"model_name":"m","text_output":""}`, `{"model_name":"m","logits":[1,2]}`},
	"/v1/embeddings":           {`{"object":"list","data":[{"embedding":[0.5]}]}`, `{"embedding":[]}`, "\x00\x7b\x00"},
	"/embed":                   {`[[0.5,1]]`, `[]`},
	"/v1/rerank":               {`{"results":[{"index":0,"relevance_score":0.5}]}`, `{"results":[]}`},
	"/score":                   {`{"data":[{"score":0}]}`, `0.5`},
	"/classify":                {`[{"label":"a","score":1}]`, `{"detail":"spam"}`},
	"/v1/audio/speech":         {"RIFF\x00\x00", "\xff\xfb\x90", ""},
	"/v1/audio/transcriptions": {"", "Hello.\n", "data are here", `{"text":""}`, "1\n00:00:00,000 --> 00:00:01,000\nHi\n"},
	"/v1/images/generations":   {`{"created":1,"data":[{"b64_json":"iVBO"}]}`, "\x89PNG\r\n"},
	"/another":                 {"", "{}", "null", "OK", `{"code":500,"message":"x"}`, "<html></html>", `{"errors":[1]}`},
}

// No good answer counts as a failed one, whatever its headers say of its form, and wherever it is cut.
func TestGoodAnswers(t *testing.T) {
	for path, texts := range goodAnswers {
		for _, text := range append(texts, longAnswers[path]...) {
			for size := 1; size <= len(text)+1; size += 1 + size/64 {
				for _, by := range []bool{false, text != "" && lines(text)} {
					if got := judged(path, text, size, by); got != Complete {
						t.Fatalf("%s: %.200q in parts of %d, by lines %v: %s", path, text, size, by, OutcomeNames[got])
					}
				}
			}
		}
	}
}

// longAnswers are answers of which the beginning does not show what they are.
var longAnswers = map[string][]string{
	chat: {
		`{"prompt_logprobs":[` + strings.Repeat("0.5,", tailSize) + `1],"choices":[{"message":{"content":"Hi"}}]}`,
		`data: {"prompt_logprobs":[` + strings.Repeat("0.5,", tailSize) + `1],"choices":[{"delta":{"content":"a"}}]}` +
			"\n\n" + done,
		`{"prompt_logprobs":[` + strings.Repeat("0.5,", tailSize) + `1],"choices":[{"message":{"content":"Hi"}}]}` + "\n",
	},
	"/api/generate": {
		`{"response":"","context":[` + strings.Repeat("1,", 2*tailSize) + "2],\"done\":true}\n",
	},
}

// judged returns the outcome of an answer to a call with the path, in parts of a size.
func judged(path, text string, size int, byLines bool) Outcome {
	var r Reader
	if byLines {
		r.ByLines()
	}
	if APIOf(path) != OtherAPI {
		r.Expect()
	}
	for part := range slices.Chunk([]byte(text), size) {
		r.Read(part)
	}
	return r.Outcome(true, true)
}

// Where a call has an API that is known, what has neither output, nor an end, nor usage, is no answer.
func TestNoAnswers(t *testing.T) {
	for text, want := range map[string]Outcome{
		"":                                      Empty,
		" \n":                                   Empty,
		"{}":                                    Empty,
		"null":                                  Empty,
		`""`:                                    Empty,
		"[]":                                    Empty,
		"<html><body>maintenance</body></html>": Empty,
		"<html>" + strings.Repeat("<p>", 9000):  Empty,
		"no healthy upstream":                   Empty,
		"default backend - 404":                 Unfinished,
		`{"detail":"Internal Server Error"}`:    Empty,
		`{"detail":[{"type":"missing","loc":[]}]}`: Refused,
		`{"detail":{"code":503}}`:                  Overloaded,
		`{"errors":[{"message":"no"}]}`:            Empty,
		`{"errors":[{"code":500}]}`:                Failed,
		`{"errors":[{"code":"404"}]}`:              Refused,
		`{"code":500,"message":"not ready"}`:       Failed,
		`{"code":400,"message":"too long"}`:        Refused,
		`{"status":429,"title":"slow down"}`:       Overloaded,
		`{"success":false,"result":null}`:          Empty,
		`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`:                     Empty,
		`{"type":"message","content":[],"stop_reason":null,"usage":{"input_tokens":0,"cache":{"5m_tokens":0}}}`: Empty,
		responseCreated + keepAlive:             Unfinished,
		responseCreated + "data: {\"n\":1}\n\n": Unfinished,
		chatRole + heartbeat:                    Unfinished,
		"data: {\"n\":1}\n\n":                   Unfinished,
		"data: {\"n\":1}\n\n" + done:            Empty,
		"data: {\"code\":400}\n\n" + done:       Refused,
	} {
		for size := 1; size <= len(text)+1; size += 1 + size/64 {
			if got := judged(chat, text, size, strings.HasPrefix(text, "data:")); got != want {
				t.Fatalf("%.200q in parts of %d: %s, want %s", text, size, OutcomeNames[got], OutcomeNames[want])
			}
		}
		var r Reader
		if r.Expect(); r.Outcome(false, true) != Complete {
			t.Error("what is broken off is judged")
		}
	}
}

// The path of a call shows its API, whatever is in front of it.
func TestAPIOf(t *testing.T) {
	for path, known := range map[string]bool{
		chat: true, chat + "/": true, "/openai/deployments/m/chat/completions?api-version=1": true,
		"/v1/messages": true, "/v1/messages/count_tokens": false, "/v1/responses/resp_1": false,
		"/generate": true, "/v2/models/m/generate": false, "/api/generate?x": true, "/v1/images/generate": false,
		"/v1/models/m:generateContent": true, "/v1/embeddings": false, "": false, "/": false, "?": false,
	} {
		if got := APIOf(path) != OtherAPI; got != known {
			t.Errorf("%s: known %v", path, got)
		}
	}
	if APIOf(chat) == APIOf("/v1/completions") {
		t.Error("two APIs are one")
	}
}

// What an error says is there to be read, but where the server is to blame.
func TestFault(t *testing.T) {
	const failed = "data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":"
	const aborted = "data: {\"text\":\"\",\"meta_info\":{\"finish_reason\":{\"type\":\"abort\",\"message\":\"x\"}}}\n\n"
	for text, want := range map[string]string{
		"data: {\"error\":{\"message\":\"too long\"}}\n\n" + done: `{"message":"too long"}`,
		"data: {\"error\":{\"message\":\"x\",\"code\":500}}\n\n":  "",
		"data: {\"error\":{\"message\":\"x\",\"code\":429}}\n\n":  "",
		"{\"error\":\"model 'm' not found\"}\n":                   `{"error":"model 'm' not found"}`,
		`{"object":"error","message":"too long","code":400}`:      `{"object":"error","message":"too long","code":400}`,
		`[{"error":{"code":404,"message":"x"}}]`:                  `{"code":404,"message":"x"}`,
		`{"detail":"no such model"}`:                              `{"detail":"no such model"}`,
		"event: error\ndata: {\"message\":\"too long\"}\n\n":      `{"message":"too long"}`,
		"error: {\"code\":400,\"message\":\"too long\"}\n\n":      `{"code":400,"message":"too long"}`,
		chatWord + chatStop + done:                                "",
		failed + "{\"message\":\"x\"}}}\n\n":                      `{"message":"x"}`,
		aborted:                                                   `{"type":"abort","message":"x"}`,
	} {
		for size := 1; size <= len(text); size++ {
			var r Reader
			if lines(text) {
				r.ByLines()
			}
			for part := range slices.Chunk([]byte(text), size) {
				r.Read(part)
			}
			r.Outcome(true, true)
			if got := string(r.Fault()); got != want {
				t.Fatalf("%q in parts of %d: %q, want %q", text, size, got, want)
			}
		}
	}
}

// FuzzOutcome judges any text: how it is cut changes nothing of what it is found to be.
func FuzzOutcome(f *testing.F) {
	for _, texts := range goodAnswers {
		for _, text := range texts {
			f.Add([]byte(text), uint16(7), lines(text))
		}
	}
	for _, c := range ends {
		f.Add([]byte(c.text), uint16(5), lines(c.text))
	}
	f.Fuzz(func(t *testing.T, text []byte, size uint16, byLines bool) {
		if len(text) > lastSize {
			text = text[:lastSize]
		}
		whole := judged(chat, string(text), len(text)+1, byLines)
		if parts := judged(chat, string(text), 1+int(size)%(len(text)+1), byLines); parts != whole {
			t.Fatalf("%q in parts of %d: %s, in one %s", text, size, OutcomeNames[parts], OutcomeNames[whole])
		}
	})
}
