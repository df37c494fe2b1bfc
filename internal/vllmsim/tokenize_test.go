package vllmsim_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/internal/vllmsim"
)

// TestTokenize checks that ids are the tokens' bytes, little-endian, and that a prompt has as many tokens as in a
// completion.
func TestTokenize(t *testing.T) {
	s := start(t, vllmsim.Config{Tuning: vllmsim.NoLatency()})
	tokens := func(body string) []uint32 {
		t.Helper()
		got := must(t, http.MethodPost, s.URL()+"/tokenize", body)
		var answer struct {
			Count       int      `json:"count"`
			MaxModelLen int      `json:"max_model_len"`
			Tokens      []uint32 `json:"tokens"`
		}
		if err := json.Unmarshal([]byte(got.body), &answer); err != nil || got.status != http.StatusOK {
			t.Fatalf("status %d, %v: %s", got.status, err, got.body)
		}
		if answer.Count != len(answer.Tokens) || answer.MaxModelLen != vllmsim.DefaultConfig().MaxModelLen {
			t.Errorf("count %d of %d tokens, max_model_len %d", answer.Count, len(answer.Tokens), answer.MaxModelLen)
		}
		return answer.Tokens
	}
	if got := tokens(`{"model":"m","prompt":"abcdefg"}`); !slices.Equal(got, []uint32{'a' | 'b'<<8 | 'c'<<16 | 'd'<<24, 'e' | 'f'<<8 | 'g'<<16}) {
		t.Errorf("tokens %x", got)
	}
	if got := tokens(`{"model":"m","prompt":""}`); !slices.Equal(got, []uint32{0}) {
		t.Errorf("an empty prompt has tokens %x", got)
	}
	short, long := tokens(chat("hello world", 5, "")), tokens(chat("hello world, and more of it", 5, ""))
	if a := decode(t, must(t, http.MethodPost, s.URL()+chatPath, chat("hello world", 5, "")).
		body); a.Usage.PromptTokens != len(short) {
		t.Errorf("%d tokens, but %d when completed", len(short), a.Usage.PromptTokens)
	}
	if n := len("user: hello world") / 4; !slices.Equal(short[:n], long[:n]) {
		t.Errorf("equal beginnings have tokens %x and %x", short[:n], long[:n])
	}
	for name, c := range map[string]struct{ method, body string }{
		"no prompt":      {http.MethodPost, `{"model":"m"}`},
		"empty messages": {http.MethodPost, `{"model":"m","messages":[]}`},
		"not JSON":       {http.MethodPost, `{`},
		"GET":            {http.MethodGet, ``},
	} {
		if got := must(t, c.method, s.URL()+"/tokenize", c.body); got.status != http.StatusBadRequest &&
			got.status != http.StatusMethodNotAllowed {
			t.Errorf("%s: status %d", name, got.status)
		}
	}
}
