package prompt

import (
	"strings"
	"testing"
)

func TestModelsInPaths(t *testing.T) {
	for path, want := range map[string]string{
		// Gemini and Vertex AI
		"/v1beta/models/gemini-pro:generateContent":                                      "gemini-pro",
		"/v1beta/models/gemini-pro:streamGenerateContent?alt=sse":                        "gemini-pro",
		"/models/a/b:generateContent":                                                    "a/b",
		"/v1beta/tunedModels/mine:generateContent":                                       "mine",
		"/v1/projects/p/locations/l/publishers/google/models/gemini-pro:countTokens":     "gemini-pro",
		"/v1/projects/p/locations/l/endpoints/77:predict":                                "77",
		"/v1/projects/p/locations/l/publishers/anthropic/models/claude:rawPredict":       "claude",
		"/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict": "",
		"/v1/projects/p/locations/l/endpoints/openapi/chat/completions":                  "",
		"/openai/deployments/sql/chat/completions?api-version=2024-10-21":                "sql",
		"/proxy/openai/deployments/sql/embeddings":                                       "sql",
		"/openai/deployments/whisper-1/audio/transcriptions":                             "whisper-1",
		"/deployments/sql/completions":                                                   "sql",
		"/engines/davinci/completions":                                                   "davinci",
		"/deployments/blue/v1/chat/completions":                                          "",
		"/deployments/v1/chat/completions":                                               "",
		"/openai/deployments":                                                            "",
		"/openai/deployments/sql":                                                        "",
		"/v2/models/llama/generate":                                                      "llama",
		"/v2/models/llama/generate_stream":                                               "llama",
		"/v2/models/llama/versions/2/infer":                                              "llama",
		"/v2/models/llama/ready":                                                         "",
		"/v2/models/llama":                                                               "",
		"/model/anthropic.claude-v2:1/invoke":                                            "anthropic.claude-v2:1",
		"/model/meta.llama3/converse-stream":                                             "meta.llama3",
		"/models/v1/chat/completions":                                                    "",
		"/models/load":                                                                   "",
		"/models//generate":                                                              "",
		"/models/:generateContent":                                                       "",
		"/v1/chat/completions":                                                           "",
		"/v1/files/a:b":                                                                  "",
		"/models/x/files/a:b":                                                            "",
		"/models/":                                                                       "",
		"":                                                                               "",
		"/" + strings.Repeat("models/", 200) + strings.Repeat("m", 2000) + ":generateContent": "",
	} {
		if got := ModelInPath(path); got != want {
			t.Errorf("%q names %q, want %q", path, got, want)
		}
	}
}

func FuzzModelInPath(f *testing.F) {
	f.Add("/v1beta/models/gemini-pro:generateContent")
	f.Add("/openai/deployments/sql/chat/completions?x")
	f.Add("/v2/models/llama/versions/2/infer")
	f.Fuzz(func(t *testing.T, path string) {
		name := ModelInPath(path)
		if name != "" && !strings.Contains(path, "/"+name) || len(name) > maxModelName {
			t.Errorf("%q names %q", path, name)
		}
		if !strings.Contains(path, "?") && ModelInPath(path+"?/models/x:y") != name {
			t.Error("a query names a model")
		}
	})
}

func BenchmarkModelInPath(b *testing.B) {
	for b.Loop() {
		ModelInPath("/v1/chat/completions")
	}
}

func TestModelsInParts(t *testing.T) {
	const form = "--b\r\nContent-Disposition: form-data; "
	for body, want := range map[string]string{
		form + "name=\"model\"\r\n\r\nwhisper-1\r\n--b--":                                                "whisper-1",
		form + "name=\"file\"; filename=\"model\"\r\n\r\nx\r\n" + form + "name=\"model\"\r\n\r\nsql\r\n": "sql",
		form + "name=\"model\"\r\nContent-Type: text/plain\r\n\r\nm\r\n":                                 "m",
		form + "filename=\"model\"\r\n\r\nsql\r\n":                                                       "",
		form + "name=\"model\"\r\n\r\nhalf":                                                              "",
		form + "name=\"model\"":                                                                          "",
		form + "name=\"model\"\r\n\r\n" + strings.Repeat("m", 2000) + "\r\n":                             "",
		`name="model"`: "",
		"":             "",
	} {
		if got := ModelInParts([]byte(body)); got != want {
			t.Errorf("%q names %q, want %q", body, got, want)
		}
	}
}
