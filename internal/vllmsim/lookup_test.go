package vllmsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// TestCachedIsWhatTheAnswerReports looks every prompt up before it is sent.
func TestCachedIsWhatTheAnswerReports(t *testing.T) {
	s := start(t, vllmsim.Config{Config: enginesim.Config{BlockSize: 4}})
	text := strings.Repeat("abc ", 37)
	chat := func(tools, text string) string {
		return fmt.Sprintf(`{%s"messages":[{"role":"user","content":%q}],"max_tokens":9}`, tools, text)
	}
	plain := func(text string) string { return fmt.Sprintf(`{"prompt":%q,"max_tokens":9}`, text) }
	const tools = `"tools":[{"type":"function","function":{"name":"f"}}],`
	for _, c := range []struct {
		about, body string
		chat        bool
		cached      bool
	}{
		{"new", chat("", text), true, false},
		{"the same again", chat("", text), true, true},
		{"longer", chat("", text+text), true, true},
		{"with tools", chat(tools, text), true, false},
		{"with the same tools", chat(tools, text+"x"), true, true},
		{"in the other API", plain(text), false, false},
		{"in the other API again", plain(text + "x"), false, true},
		{"blocks up to the last token", plain(text[:12*4]), false, true},
	} {
		p, err := s.Prompt(c.body, c.chat)
		if err != nil {
			t.Fatalf("%s: %v", c.about, err)
		}
		cached := s.Cached(&p)
		path := "/v1/completions"
		if c.chat {
			path = "/v1/chat/completions"
		}
		usage := gjson.Get(must(t, "POST", s.URL()+path, c.body).body, "usage")
		reported := int(usage.Get("prompt_tokens_details.cached_tokens").Int())
		if cached != reported || cached > 0 != c.cached || p.Tokens != int(usage.Get("prompt_tokens").Int()) {
			t.Errorf("%s: %d of %d tokens are cached, the answer reports %s", c.about, cached, p.Tokens, usage.Raw)
		}
	}
	if _, err := s.Prompt(`{"messages":[]}`, true); err == nil {
		t.Error("a body without a prompt was read")
	}
}
