package prompt

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

var scanTests = []struct {
	name string
	body string
	want Info
}{
	{
		"chat",
		`{"model":"llama","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}],` +
			`"stream":true,"max_tokens":16,"n":2}`,
		Info{MaxTokens: 16, Stream: true, N: 2, TextBytes: len("systemBe brief.userHi"), API: Chat},
	},
	{
		"white space everywhere",
		" {\r\n\t\"model\" : \"m\" , \"messages\" : [ { \"content\" : \"ab\" } , \"c\" ] } \n",
		Info{TextBytes: 3, API: Chat},
	},
	{
		"parts and images",
		`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url",` +
			`"image_url":{"url":"data:image/png;base64,AAAA"}},{"type":"input_audio","input_audio":{"data":"BBBB",` +
			`"format":"wav"}}]}]}`,
		Info{TextBytes: len("userlook"), API: Chat, Media: true},
	},
	{
		"image inside a text",
		`{"messages":["data:image/jpeg;base64,AAAA","data: 1, 2, 3"]}`,
		Info{TextBytes: len("data: 1, 2, 3"), API: Chat, Media: true},
	},
	{
		"text behind an image in the same list",
		`{"input":[{"image_url":"x"},"text"]}`,
		Info{TextBytes: 4, API: Responses, Media: true},
	},
	{
		"tools count whole",
		`{"messages":[],"tools":[{"name":"f"}]}`,
		Info{TextBytes: len(`[{"name":"f"}]`), API: Chat},
	},
	{
		"tool calls",
		`{"messages":[{"role":"assistant","tool_calls":[{"id":"call_1","type":"function","function":{"name":"f",` +
			`"arguments":"{\"a\":1}"}}],"content":null}]}`,
		Info{TextBytes: len(`assistantf{"a":1}`), API: Chat, Answered: true},
	},
	{"completions, string", `{"model":"m","prompt":"abc"}`, Info{TextBytes: 3, API: Completions}},
	{"completions, strings", `{"prompt":["ab","c"],"suffix":"d"}`, Info{TextBytes: 4, API: Completions}},
	{"completions, tokens", `{"prompt":[1,22,-3]}`, Info{TokenIDs: 3, API: Completions}},
	{"completions, lists of tokens", `{"prompt":[[1,2],[3]]}`, Info{TokenIDs: 3, API: Completions}},
	{"embeddings", `{"input":["ab","c"]}`, Info{TextBytes: 3, API: Embeddings}},
	{
		"responses, text", `{"input":"ab","instructions":"c","max_output_tokens":9}`,
		Info{TextBytes: 3, MaxTokens: 9, API: Responses},
	},
	{"responses, messages", `{"input":[{"role":"user","content":"ab"}]}`, Info{TextBytes: 6, API: Responses}},
	{
		"responses, continued", `{"input":"ab","previous_response_id":"r"}`,
		Info{TextBytes: 2, API: Responses, Stateful: true, Answered: true},
	},
	{"rerank", `{"query":"q","documents":["ab",{"text":"c"}]}`, Info{TextBytes: 4, API: Rerank}},
	{"score", `{"text_1":"a","text_2":["b","c"]}`, Info{TextBytes: 3, API: Rerank}},
	{
		"anthropic",
		`{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":"ab"}],"max_tokens":5}`,
		Info{TextBytes: 7, MaxTokens: 5, API: Anthropic},
	},
	{"anthropic by version", `{"anthropic_version":"v","messages":[]}`, Info{API: Anthropic}},
	{
		"sglang", `{"text":"ab","sampling_params":{"max_new_tokens":5,"n":2},"max_tokens":9}`,
		Info{MaxTokens: 5, TextBytes: 2, API: SGLang},
	},
	{"sglang, texts", `{"text":["ab","c"],"sampling_params":[{"max_new_tokens":5}]}`, Info{TextBytes: 3, API: SGLang}},
	{"sglang, tokens", `{"input_ids":[[1,2],[3,-4]]}`, Info{TokenIDs: 4, API: SGLang}},
	{"sglang, a picture", `{"text":"ab","image_data":["https://a/b.png"]}`, Info{TextBytes: 2, API: SGLang, Media: true}},
	{"sglang, no picture", `{"text":"ab","image_data":null,"audio_data":[],"x":"y"}`, Info{TextBytes: 2, API: SGLang}},
	{
		"tgi", `{"inputs":"ab","parameters":{"max_new_tokens":5,"x":{"max_new_tokens":8}}}`,
		Info{MaxTokens: 5, TextBytes: 2, API: TGI},
	},
	{"triton", `{"text_input":"ab","max_tokens":5}`, Info{MaxTokens: 5, TextBytes: 2, API: Triton}},
	{
		"triton, parameters", `{"text_input":"ab","parameters":{"max_tokens":5,"max_new_tokens":7}}`,
		Info{MaxTokens: 5, TextBytes: 2, API: Triton},
	},
	{
		"gemini", `{"contents":[{"role":"user","parts":[{"text":"ab"}]}],"systemInstruction":{"parts":[{"text":"c"}]},` +
			`"generationConfig":{"maxOutputTokens":5}}`,
		Info{MaxTokens: 5, TextBytes: len("userabc"), API: Gemini},
	},
	{
		"gemini, with underscores", `{"system_instruction":{"parts":[{"text":"c"}]},"contents":[{"parts":[{"text":"ab"}]}` +
			`],"generation_config":{"max_output_tokens":5}}`,
		Info{MaxTokens: 5, TextBytes: len("abc"), API: Gemini},
	},
	{
		"gemini, a picture", `{"contents":[{"parts":[{"inlineData":{"mimeType":"","data":"QUJD"}},{"text":"ab"}]}]}`,
		Info{TextBytes: len("ab"), API: Gemini, Media: true},
	},
	{"fields of other APIs", `{"messages":["abcdefgh"],"suffix":"x","documents":["x"],"text":"x","inputs":"x",` +
		`"contents":["x"],"prompt":["x",1],"input_ids":[1],"input":"x"}`, Info{TextBytes: 8, API: Unknown}},
	{"limits of other APIs", `{"messages":[],"parameters":{"max_new_tokens":5,"max_tokens":5},` +
		`"sampling_params":{"max_new_tokens":5},"generationConfig":{"maxOutputTokens":5}}`, Info{API: Chat}},
	{"generic names below the top", `{"x":{"text":"a","inputs":"a","contents":"a"}}`, Info{}},
	{
		"format of an answer", `{"input":[{"content":"a"}],"text":{"format":{"type":"text"}}}`,
		Info{TextBytes: 1, API: Responses},
	},
	{
		"fields of null", `{"prompt":null,"documents":null,"messages":null,"input":"ab"}`,
		Info{TextBytes: 2, API: Embeddings},
	},
	{
		"a stored item", `{"input":[{"type":"item_reference","id":"i"},{"role":"user","content":"ab"}]}`,
		Info{TextBytes: len("user") + 2, API: Responses, Stateful: true},
	},
	{"conversation", `{"input":"b","conversation":"c"}`, Info{TextBytes: 1, API: Responses, Stateful: true, Answered: true}},
	{
		"a stored prompt", `{"input":"ab","prompt":{"id":"p","variables":{"x":"c"}}}`,
		Info{TextBytes: 3, API: Responses, Stateful: true},
	},
	{
		"a stored prompt alone", `{"prompt":{"id":"p","variables":{"x":"c"}}}`,
		Info{TextBytes: 1, API: Responses, Stateful: true},
	},
	{
		"nothing before", `{"input":[{"content":"ab"}],"conversation":null,"previous_response_id":null,"prompt":null}`,
		Info{TextBytes: 2, API: Responses},
	},
	{
		"continued in another API", `{"messages":["ab"],"conversation":"c","previous_response_id":"r"}`,
		Info{TextBytes: 2, API: Chat},
	},
	{
		"a picture by its type", `{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://a"}}]}]}`,
		Info{API: Chat, Media: true},
	},
	{"a file by its id", `{"input":[{"content":[{"file_id":"f"}]}]}`, Info{API: Responses, Media: true}},
	{
		"an answer given as audio", `{"messages":[{"content":"ab","audio":{"id":"x"}}]}`,
		Info{TextBytes: 2, API: Chat, Media: true},
	},
	{
		"no media", `{"messages":[{"content":"ab","audio":null,"images":[]}],` +
			`"tools":[{"properties":{"image":{"type":"file"}}}],"audio":{"voice":"x"}}`,
		Info{TextBytes: 2 + len(`[{"properties":{"image":{"type":"file"}}}]`), API: Chat},
	},
	{"no prompt", `{"model":"m"}`, Info{}},
	{"empty object", `{}`, Info{}},

	{"newest limit wins", `{"max_completion_tokens":3,"max_output_tokens":2,"max_tokens":1}`, Info{MaxTokens: 3}},
	{"limit of null", `{"max_completion_tokens":null,"max_tokens":1}`, Info{MaxTokens: 1}},
	{"limit as a float", `{"max_tokens":1.5e1}`, Info{MaxTokens: 15}},
	{"negative limit", `{"max_tokens":-1}`, Info{}},
	{"huge limit", `{"max_tokens":1e300,"n":1e999}`, Info{MaxTokens: maxCount, N: maxCount}},
	{"endless limit", `{"max_tokens":` + strings.Repeat("9", 100) + `}`, Info{}},
	{"limit of the wrong type", `{"max_tokens":"7","stream":"true","n":[3],"model":[5]}`, Info{}},
	{"below the top", `{"x":{"model":"m","max_tokens":5,"stream":true,"n":2,"messages":["a"]}}`, Info{}},
	{"stream false", `{"stream":false}`, Info{}},

	{"escaped key", `{"max\u005ftokens":3}`, Info{MaxTokens: 3}},
	{
		"all of a key escaped",
		`{"\u006d\u0061\u0078\u005f\u0063\u006f\u006d\u0070\u006c\u0065\u0074\u0069\u006f\u006e\u005f` +
			`\u0074\u006f\u006b\u0065\u006e\u0073":4}`,
		Info{MaxTokens: 4},
	},
	{"escaped key too long", `{"max_tokens\u0000aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":3}`, Info{}},
	{
		"escapes count as text", `{"prompt":"\u4f60\ud83d\ude00\n\u0041\u00e9"}`,
		Info{TextBytes: len("你😀\nAé"), API: Completions},
	},
	{"not UTF-8", "{\"model\":\"\xff\xfe\",\"prompt\":\"\x80\"}", Info{TextBytes: 1, API: Completions}},
	{"likelihoods of the prompt", `{"messages":[],"prompt_logprobs":1}`, Info{API: Chat, BypassCache: true}},
	{
		"likelihoods of the prompt, none but its own", `{"prompt":"a","prompt_logprobs":0}`,
		Info{TextBytes: 1, API: Completions, BypassCache: true},
	},
	{
		"no likelihoods of the prompt", `{"prompt":"a","prompt_logprobs":null,"echo":true,"logprobs":null}`,
		Info{TextBytes: 1, API: Completions},
	},
	{
		"echo with likelihoods", `{"prompt":"a","echo":true,"logprobs":0}`,
		Info{TextBytes: 1, API: Completions, BypassCache: true},
	},
	{"echo", `{"prompt":"a","echo":true}`, Info{TextBytes: 1, API: Completions}},
	{"likelihoods of the answer", `{"prompt":"a","echo":false,"logprobs":5}`, Info{TextBytes: 1, API: Completions}},
	{"echo of a chat", `{"messages":[],"echo":true}`, Info{API: Chat, BypassCache: true}},
	{"a chat with likelihoods", `{"messages":[],"logprobs":true}`, Info{API: Chat}},
	{"likelihoods below the top", `{"messages":[],"x":{"prompt_logprobs":1}}`, Info{API: Chat}},

	{"other keys twice", `{"a":1,"a":2}`, Info{}},
	{"as deep as allowed", `{"x":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `}`, Info{}},
}

func TestScan(t *testing.T) {
	for _, tt := range scanTests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Scan([]byte(tt.body), true)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestScanErrors(t *testing.T) {
	malformed := []string{
		``, ` `, `[]`, `1`, `"a"`, `null`, `{`, `}`, `{]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a" 1}`,
		`{"a":[1,]}`, `{"a":[,]}`, `{"a":[1}`, `{"a":[1}]`, `{a:1}`, `{'a':1}`, `{1:1}`, `{"a":1}}`, `{"a":1}x`, `{"a":1}{}`,
		"\ufeff{}", "{}\x00", `/* c */{}`, "{// c\n}", `{"a":tru}`, `{"a":nul`, `{"a":falsy}`, `{"a":truee}`, `{"a":NaN}`,
		`{"a":01}`, `{"a":-}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":1e+}`, `{"a":0x1}`, `{"a":1_0}`,
		`{"a":1`,
		`{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12`, `{"a":"\`, `{"a":"b`, "{\"a\":\"\n\"}", "{\"a\":\"\x00\"}",
		"{\"a\":\"12345678\x1f\"}", "{\"a\":\"\\n\x1f\"}",
		`{"x":` + strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth) + `}`,
		strings.Repeat(`{"a":`, 1e6), `{"a":` + strings.Repeat("[", 1e6),
	}
	for _, body := range malformed {
		if got, err := Scan([]byte(body), true); !errors.Is(err, ErrMalformed) || got != (Info{}) {
			t.Errorf("%.60q: got %+v, %v", body, got, err)
		}
	}
	for _, body := range []string{
		`{"model":"a","model":"a"}`,
		`{"model":"a","messages":[],"mod\u0065l":"b"}`,
		`{"messages":[],"messages":[]}`,
		`{"prompt":"a","prompt":"b"}`,
		`{"max_tokens":1,"x":[{}],"max_tokens":2}`,
		`{"stream":true,"stream":false}`,
		`{"chat_template_kwargs":{},"chat_template_kwargs":{}}`,
		`{"prompt_logprobs":null,"prompt_logprobs":1}`,
		`{"text":"a","text":"b"}`, `{"inputs":"a","x":1,"inputs":"a"}`, `{"contents":[],"contents":[]}`,
		`{"conversation":"a","conversation":"a"}`,
		`{"systemInstruction":{},"system_instruction":{}}`, `{"generationConfig":{},"generation_config":{}}`,
		`{"parameters":{"max_new_tokens":1,"a":[],"max_new_tokens":2}}`, `{"sampling_params":{"max_new_tokens":1,` +
			`"max\u005fnew_tokens":2}}`,
		`{"generationConfig":{"maxOutputTokens":1,"max_output_tokens":1}}`,
	} {
		for _, complete := range []bool{true, false} {
			if got, err := Scan([]byte(body), complete); !errors.Is(err, ErrAmbiguous) || got != (Info{}) {
				t.Errorf("%q: got %+v, %v", body, got, err)
			}
		}
	}
}

func TestScanTruncated(t *testing.T) {
	tests := []struct {
		name string
		body string
		want Info
	}{
		{"nothing yet", ``, Info{}},
		{"white space", ` `, Info{}},
		{"inside the model", `{"model":"lla`, Info{}},
		{"inside a number", `{"max_tokens":12`, Info{}},
		{"behind a number", `{"max_tokens":12 `, Info{MaxTokens: 12}},
		{"inside a literal", `{"stream":tru`, Info{}},
		{"inside a prompt", `{"model":"m","prompt":"abc`, Info{TextBytes: 3, API: Completions}},
		{"inside a message", `{"messages":[{"content":"ab"},{"content":"c`, Info{TextBytes: 3, API: Chat}},
		{
			"inside an image", `{"messages":[{"content":[{"image_url":{"url":"data:image/png;base64,AAAA`,
			Info{API: Chat, Media: true},
		},
		{"inside the tools", `{"tools":[{"a":"b`, Info{TextBytes: len(`[{"a":"b`)}},
		{"behind the name of tools", `{"tools":`, Info{}},
		{"inside tokens", `{"prompt":[1,2,3`, Info{TokenIDs: 2, API: Completions}},
		{"inside a key", `{"max_tokens":1,"mod`, Info{MaxTokens: 1}},
		{"behind a key", `{"prompt"`, Info{API: Completions}},
		{"inside a number that counts", `{"prompt_logprobs":1`, Info{BypassCache: true}},
		{"at the end", `{"max_tokens":1}`, Info{MaxTokens: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Scan([]byte(tt.body), false)
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	for _, body := range []string{
		`[`, `{"a":x`, `{"a":1}}`, `{"a":trx`, `{"a":-x`, `{"a":"\q`, `{"a":"\u0g`,
		"{\"a\":\"\x01",
	} {
		if _, err := Scan([]byte(body), false); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

// However much is cut off the end of a valid body, the rest is no error, has only values that the whole has, and never
// less text when it is longer.
func TestScanEveryPrefix(t *testing.T) {
	whole := []byte(`{"model":"a\u0062\/c","messages":[{"role":"user","content":[{"type":"text","text":"h\u00e9\n"},` +
		`{"image_url":{"url":"data:x;base64,AA"}}]}],` +
		`"tools":[{"a":-1.5e+3}],"stream":true,"max_tokens":64,"n":null}`)
	all, err := Scan(whole, true)
	if err != nil {
		t.Fatal(err)
	}
	const escape = len(`\u00e9`) // an escape that is cut in two counts with the bytes that are there
	before := 0
	for i := range whole {
		got, err := Scan(whole[:i], false)
		if err != nil {
			t.Fatalf("%q: %v", whole[:i], err)
		}
		if got.TextBytes < before-escape || got.TextBytes > all.TextBytes+escape {
			t.Errorf("%q: %d bytes of text, %d before, %d in all", whole[:i], got.TextBytes, before, all.TextBytes)
		}
		if got.MaxTokens != 0 && got.MaxTokens != 64 {
			t.Errorf("%q: got %+v", whole[:i], got)
		}
		if _, err := Scan(whole[:i], true); !errors.Is(err, ErrMalformed) {
			t.Errorf("%q as a whole: got %v", whole[:i], err)
		}
		before = got.TextBytes
	}
}

// Every byte value at every offset of a string, so that examining eight bytes at once is correct at each.
func TestSpecialAtEveryOffset(t *testing.T) {
	for c := range 256 {
		for offset := range 17 {
			text := strings.Repeat("a", offset) + string([]byte{byte(c)}) + strings.Repeat("\xf0", 16-offset)
			_, err := Scan([]byte(`{"a":"`+text+`"}`), true)
			if bad := c < ' ' || c == '"' || c == '\\'; bad != (err != nil) {
				t.Fatalf("byte %#x at %d: %v", c, offset, err)
			}
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	body := chatBody(16 << 10)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := Scan(body, true); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The name of the model is what its escapes stand for. A body that ends within the name, or within an escape of it, has
// none: it would be another one's.
func TestModelName(t *testing.T) {
	const body = `{"model":"a\/b\u4f60\ud83d\ude00","prompt":"x"}`
	for end, want := range map[int]string{
		len(body): "a/b你😀", len(`{"model":"a\/b`): "", len(`{"model":"a\`): "",
		len(`{"model":"a\/b\u4f`): "", len(`{"model":"a\/b\u4f60\ud83d\ude`): "", 8: "",
	} {
		text := []byte(body[:end])
		_, parts, err := Read(text, end == len(body))
		if got := parts.ModelName(text); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", text, got, err, want)
		}
	}
}

// The names of fields may be escapes entirely, and longer names with the same beginning are others.
func TestEscapedFieldNames(t *testing.T) {
	escaped := func(name string) string {
		var b strings.Builder
		for _, r := range name {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		return b.String()
	}
	const name = "max_completion_tokens"
	for key, want := range map[string]int{
		name: 7, escaped(name): 7, escaped("m") + name[1:]: 7, escaped(name) + "x": 0, escaped(name + "x"): 0,
		escaped(name[:20]): 0, escaped(name) + strings.Repeat("é", 100) + `\n`: 0,
		escaped(name[:20]) + strings.Repeat("é", 5) + `\n\n\n`: 0,
	} {
		body := []byte(`{"` + key + `":7,"messages":["x"]}`)
		info, err := Scan(body, true)
		if err != nil || info.MaxTokens != want {
			t.Errorf("%s: limit %d, %v, want %d", body, info.MaxTokens, err, want)
		}
		if n := testing.AllocsPerRun(10, func() { Scan(body, true) }); n != 0 {
			t.Errorf("%s: %v allocations", body, n)
		}
	}
}
