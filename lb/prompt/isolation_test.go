package prompt

import (
	"slices"
	"strings"
	"testing"
)

// isolating are members of requests that keep prompts apart, with X in their place.
var isolating = []string{
	`"model":"X"`, `"cache_salt":"X"`, `"extra_key":"X"`, `"extra_key":["a","X"]`, `"\u0065xtra_key":"X"`,
	`"lora_path":"X"`, `"lora_path":["X"]`, `"lora":[{"id":X,"scale":1.0}]`, `"lora":[{"id":0,"scale":0.X}]`,
	`"lora_name":"X"`, `"lora_task_id":X`, `"lora_id":"X"`, `"parameters":{"max_new_tokens":5,"adapter_id":"X"}`,
	`"parameters":{"adapt\u0065r_id":"X"}`, `"mm_processor_kwargs":{"max_pixels":X}`,
	`"chat_template_kwargs":{"enable_thinking":X}`,
	`"image_data":"https://a/X.png"`, `"image_data":["https://a/X.png"]`, `"image_data":[["https://a/0.png"],["https://a/X.png"]]`,
	`"audio_data":"https://a/X.wav"`, `"video_data":["https://a/X.mp4"]`, `"images":["` + strings.Repeat("Q", 8000) + `X"]`,
	`"images":["` + strings.Repeat("Q", 8000) + `","` + strings.Repeat("R", 8000) + `X"]`,
	`"multi_modal_data":{"image":"data:image/png;base64,X"}`, `"multi_modal_data":{"image":["https://a/0.png","https://a/X.png"]}`,
	`"multi_modal_data":{"audio":"https://a/X.wav"}`,
}

// What engines keep apart has no block in common, wherever it stands and however long the body is.
func TestWhatIsolates(t *testing.T) {
	for _, member := range isolating {
		first := 0
		if strings.Contains(member, "image") && strings.Contains(member, ",") { // the block of another picture in front
			first = 1
		}
		for _, prompt := range []string{
			`"prompt":"` + words(1, 30_000) + `"`, `"text":"` + words(1, 3000) + `"`, `"inputs":"` + words(1, 3000) + `"`,
			`"messages":[{"role":"user","content":"` + words(1, 30_000) + `"}]`,
		} {
			for name, body := range map[string]string{
				"in front": "{" + member + "," + prompt + "}", "behind": "{" + prompt + " , " + member + "}",
			} {
				one, two := strings.Replace(body, "X", "1", 1), strings.Replace(body, "X", "2", 1)
				for _, of := range []func(string) []Block{
					func(body string) []Block { return chainOf(t, body) },
					func(body string) []Block { return longChain(t, []byte(body), 8<<10) },
				} {
					a, b := of(one), of(two)
					if n := common(t, a, b); n > first || len(a) < 4 || !slices.Equal(a, of(one)) {
						t.Errorf("%.60s %s: %d of %d blocks are those of another", member, name, n, len(a))
					}
				}
			}
		}
	}
}

// A name that is not given is that of the server, and so is one in a path that has none.
func TestNothingIsolates(t *testing.T) {
	prompt := `"text":"` + words(1, 500) + `"`
	want := chainOf(t, `{`+prompt+`}`)
	for _, member := range []string{
		`"cache_salt":null`, `"extra_key":null`, `"lora":[]`, `"lora_path":null`, `"parameters":{}`, `"parameters":null`,
		`"parameters":{"max_new_tokens":5,"adapter_id":null}`, `"image_data":null`, `"images":[ ]`, `"reasoning":null`,
	} {
		if got := chainOf(t, `{`+prompt+`,`+member+`}`); !slices.Equal(got, want) {
			t.Errorf("%s: %d of %d blocks are the same", member, common(t, got, want), len(want))
		}
	}
	if _, _, err := Read([]byte(`{"parameters":{"adapter_id":"a","adapter_id":"b"},"inputs":"c"}`), true); err != ErrAmbiguous {
		t.Errorf("two adapters: %v", err)
	}
	info, err := Scan([]byte(`{"parameters":{"adapter_id":7},"inputs":"c","prompt":"d"}`), true)
	if err != nil || info.MaxTokens != 0 {
		t.Errorf("an adapter is a limit: %+v, %v", info, err)
	}
}

// A body that ends before a name could be there, or within it, has no blocks.
func TestCutNamesIsolate(t *testing.T) {
	for _, end := range []string{`"extra_key":"a`, `"lora":[{"id":`, `"parameters":{"max_new_tokens":5,"adapter`, `"image_data":"Q`} {
		body := []byte(`{"text":"` + words(1, 500) + `",` + end)
		_, parts, err := Read(body, false)
		if err != nil {
			t.Fatal(err)
		}
		if blocks, _ := NewChainer(testSecret, testBlock).Chain(body, &parts); len(blocks) > 0 {
			t.Errorf("%s: %d blocks", end, len(blocks))
		}
	}
	many := `{"text":"` + words(1, 500) + `","parameters":{"a":"` + strings.Repeat("x ", smallBytes) + `","adapter_id":"a"}}`
	if long(1<<10, []byte(many)).Ended() {
		t.Error("a body with more parameters than are kept is read to its end")
	}
}

// The model in a path is a name like that in a body.
func TestModelsOfKeysInPaths(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": "", "": "", "/": "", "/v1/models": "", "/v1/models/": "",
		"/models/v1/chat/completions":                                                   "",
		"/v1beta/models/gemini-pro:generateContent?key=a/b:c":                           "gemini-pro",
		"/v1beta/models/gemini-pro:streamGenerateContent?alt=sse":                       "gemini-pro",
		"/v1beta/tunedModels/mine:generateContent":                                      "mine",
		"/v1/projects/p/locations/l/publishers/google/models/gemini:generateContent":    "gemini",
		"/v1/projects/p/locations/l/publishers/anthropic/models/claude@2024:rawPredict": "claude@2024",
		"/v1/projects/p/locations/l/endpoints/123:predict":                              "123",
		"/v2/models/llama/generate":                                                     "llama",
		"/v2/models/llama/generate_stream/":                                             "llama",
		"/v2/models/llama/versions/2/infer":                                             "llama/versions/2",
		"/openai/deployments/gpt-4o/chat/completions?api-version=2024":                  "gpt-4o",
		"/v1/engines/davinci/completions":                                               "davinci",
		"/model/anthropic.claude-v1:0/converse":                                         "anthropic.claude-v1:0",
		"/model/anthropic.claude-v1:0/invoke-with-response-stream":                      "anthropic.claude-v1:0",
		"/models/meta-llama/Llama-3.1-8B/v1/chat/completions":                           "meta-llama/Llama-3.1-8B",
		"/serving-endpoints/mine/invocations":                                           "mine",
	} {
		if got := IsolatingPath(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	body := []byte(`{"contents":[{"role":"model","parts":[{"text":"` + words(1, 500) + `"}]}]}`)
	chains := map[string][]Block{}
	for _, path := range []string{"", "a", "b"} {
		_, parts, _ := Read(body, true)
		parts.InPath(path)
		blocks, _ := NewChainer(testSecret, testBlock).Chain(body, &parts)
		chains[path] = slices.Clone(blocks)
		if got := parts.ModelName(body); got != path {
			t.Errorf("the model in the path %q is %q", path, got)
		}
	}
	for _, pair := range [][2]string{{"", "a"}, {"a", "b"}} {
		if n := common(t, chains[pair[0]], chains[pair[1]]); n > 0 {
			t.Errorf("%v: %d blocks are the same", pair, n)
		}
	}
	_, parts, _ := Read([]byte(`{"model":"c","prompt":""}`), true)
	parts.InPath("a")
	if got := parts.ModelName([]byte(`{"model":"c","prompt":""}`)); got != "c" {
		t.Errorf("the model of a body is %q", got)
	}
}

// The name in a path may be that of a model whose template prints ids.
func TestIDsOfModelsInPaths(t *testing.T) {
	with := func(model, id string) []Block {
		body := []byte(`{"messages":[{"role":"tool","tool_call_id":"` + id + `","content":"` + words(2, 100) + `"}]}`)
		_, parts, _ := Read(body, true)
		parts.InPath(model)
		blocks, _ := NewChainer(testSecret, testBlock).Chain(body, &parts)
		return slices.Clone(blocks)
	}
	for model, printed := range map[string]bool{"gpt": false, "mistral-large": true} {
		if slices.Equal(with(model, "a"), with(model, "b")) == printed {
			t.Errorf("%s: ids are printed: want %v", model, printed)
		}
	}
}
