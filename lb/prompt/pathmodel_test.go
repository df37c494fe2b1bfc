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
		"--b\r\ncontent-disposition:form-data;name=model\r\n\r\nsql\r\n":                     "sql",
		form + "name=\"model\"\r\n\r\na\r\n" + form + "name=\"model\"\r\n\r\nb\r\n":          "",
		form + "name=\"model\"\r\n\r\na\r\n" + form + "name=\"model\"\r\n\r\na\r\n":          "a",
		form + "name=\"model\"\r\n\r\na\r\n--b--\r\n" + form + "name=\"model\"\r\n\r\nb\r\n": "a",
		form + "name=\"file\"; filename=\"f\"\r\n\r\n name=\"model\"\r\n\r\npopular\r\n":     "",
		form + "name=\"file\"; filename=\"f\"\r\n\r\n--c\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" +
			"popular\r\n--c\r\n" + form + "name=\"model\"\r\n\r\nsql\r\n": "sql",
		form + "name=\"file\"; filename=\"f; name=\\\"model\"\r\n\r\npopular\r\n":                           "",
		form + "name=\"model\"; filename=\"f\"\r\n\r\npopular\r\n":                                          "",
		form + "name=\"file; name=\\\"model\\\"\"\r\n\r\npopular\r\n":                                       "",
		form + "name=\"a\"\r\nX-Note: form-data; name=\"model\"\r\n\r\npopular\r\n":                         "",
		"--" + strings.Repeat("b", 100) + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n": "",
		"preamble\r\n" + form + "name=\"model\"\r\n\r\nm\r\n":                                               "",
		"": "",
	} {
		if got := ModelInParts([]byte(body)); got != want {
			t.Errorf("%q names %q, want %q", body, got, want)
		}
	}
}

func FuzzModelInParts(f *testing.F) {
	f.Add("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--b--")
	f.Fuzz(func(t *testing.T, text string) {
		name := ModelInParts([]byte(text))
		if len(name) > maxModelName || name != "" && !strings.Contains(text, "\r\n\r\n"+name+"\r\n") {
			t.Errorf("%q names %q", text, name)
		}
		if strings.Contains(text, "\n--b") || strings.Contains(text, "\r") {
			return
		}
		file := "--b\r\ncontent-disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n" + text + "\r\n" +
			"--b\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nsql\r\n"
		if name := ModelInParts([]byte(file)); name != "sql" {
			t.Errorf("a file with %q names %q", text, name)
		}
	})
}
