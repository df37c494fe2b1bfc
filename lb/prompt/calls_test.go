package prompt

import (
	"strings"
	"testing"
)

func TestCallsByMethodAndPath(t *testing.T) {
	for _, c := range []struct {
		method, path string
		bodiless     bool
		want         Call
	}{
		{"POST", "/v1/chat/completions", false, Computes},
		{"POST", "/v1/completions", false, Computes},
		{"POST", "/v1/responses", false, Computes},
		{"POST", "/v1/messages?beta=true", false, Computes},
		{"POST", "/v1/embeddings", false, Computes},
		{"POST", "/v1beta/models/m:generateContent", false, Computes},
		{"POST", "/api/chat", false, Computes},
		{"POST", "/generate", false, Computes},
		{"POST", "/v1/chat/completions", true, Computes},
		{"GET", "/v1/chat/completions", true, Computes},
		{"GET", "/health_generate", true, Computes},
		{"POST", "/v1/messages/count_tokens", false, Idle},
		{"POST", "/proxy/v1/messages/count_tokens?beta=true", false, Idle},
		{"POST", "/tokenize", false, Idle},
		{"POST", "/tokenize/", false, Idle},
		{"POST", "/v1/detokenize", false, Idle},
		{"POST", "/apply-template", false, Idle},
		{"POST", "/v1/chat/completions/render", false, Idle},
		{"POST", "/v1/responses/input_tokens", false, Idle},
		{"POST", "/v1/chat/completions/input_tokens", false, Idle},
		{"POST", "/v1beta/models/gemini-pro:countTokens", false, Idle},
		{"GET", "/v1/models", true, Idle},
		{"HEAD", "/v1/models", true, Idle},
		{"GET", "/openai/v1/models/m", true, Idle},
		{"GET", "/health", true, Idle},
		{"POST", "/v1/files", false, Idle},
		{"GET", "/v1/batches/b1", true, Idle},
		{"POST", "/v1/responses/r1/cancel", true, Idle},
		{"DELETE", "/v1/responses/r1", true, Idle},
		{"GET", "/v1/responses/r1?stream=true", true, Idle},
		{"GET", "/index.html", true, Bodiless},
		{"DELETE", "/anything", true, Bodiless},
		{"OPTIONS", "/v1/embeddings", true, Bodiless},
		{"GET", "/search", false, Computes}, // with a body: who knows
		{"POST", "/anything", true, Computes},
		{"GET", "", true, Bodiless},
		{"GET", "models", true, Bodiless}, // no path
		{"POST", "tokenize", false, Computes},
		{"POST", "/xtokenize", false, Computes},
		{"POST", "/uploads//x", false, Computes},
	} {
		if got := CallOf(c.method, c.path, c.bodiless); got != c.want {
			t.Errorf("%s %s (bodiless %v) is %v, want %v", c.method, c.path, c.bodiless, got, c.want)
		}
	}
}

// Each rule decides about the path that it names: none stands behind another that takes its calls.
func TestNoRuleOfCallsIsHidden(t *testing.T) {
	for _, r := range callRules {
		method := r.method
		if method == "" {
			method = "POST"
		}
		if got := CallOf(method, "/v1"+strings.ReplaceAll(r.path, "*", "x"), false); got != r.what {
			t.Errorf("%s %s is %v, want %v", method, r.path, got, r.what)
		}
	}
}

func FuzzCallOf(f *testing.F) {
	for _, r := range callRules {
		f.Add(r.method, r.path, true)
	}
	f.Fuzz(func(t *testing.T, method, path string, bodiless bool) {
		got := CallOf(method, path, bodiless)
		if got == Bodiless && !bodiless {
			t.Error("a call with a body is taken for one without")
		}
		if CallOf(method, path+"?q=/tokenize", bodiless) != got && !strings.Contains(path, "?") {
			t.Error("a query changes what a call is")
		}
	})
}

func BenchmarkCallOf(b *testing.B) {
	for b.Loop() {
		CallOf("POST", "/v1/embeddings", false)
	}
}
