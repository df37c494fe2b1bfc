package vllmsim_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/warmgate/warmgate/internal/vllmsim"
)

const (
	messagesPath  = "/v1/messages"
	responsesPath = "/v1/responses"
)

// TestWhatTemplatesPrint compares bodies that are the same prompt, and bodies that are not.
func TestWhatTemplatesPrint(t *testing.T) {
	s := vllmsim.New(vllmsim.Config{})
	long := strings.Repeat("word ", 40)
	talk := func(content string) string { return `{"messages":[{"role":"user","content":` + content + `}]}` }
	picture := func(data string) string {
		return talk(`[{"type":"image_url","image_url":{"url":"` + data + `"}},{"type":"text","text":"` + long + `"}]`)
	}
	system := func(line string) string {
		return `{"system":[{"type":"text","text":"` + line + `"},{"type":"text","text":"` + long + `"}],` + talk(`"x"`)[1:]
	}
	call := func(id string) string {
		return `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"` + id +
			`","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id +
			`","name":"` + id + `","content":"` + long + `"}]}`
	}
	use := func(id string) string {
		return `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"` + id +
			`","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + id +
			`","content":[{"type":"text","text":"` + long + `"}]}]}]}`
	}
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"a text in a list", talk(`"` + long + `"`), talk(`[{"type":"text","text":"` + long + `"}]`), true},
		{
			"a cache marker", talk(`"` + long + `"`),
			talk(`[{"cache_control":{"type":"ephemeral"},"type":"text","text":"` + long + `"}]`), true,
		},
		{"client metadata", system("x-anthropic-billing-header: a"), system("x-anthropic-billing-header: b"), true},
		{"a first text that is none", system("a"), system("b"), false},
		{
			"members behind", `{"system":"` + long + `","tools":[1],` + talk(`"x"`)[1:],
			strings.TrimSuffix(talk(`"x"`), "}") + `,"tools":[1],"system":"` + long + `"}`, true,
		},
		{"ids of calls", call("call_1"), call("call_2"), true},
		{"ids of uses", use("toolu_1"), use("toolu_2"), true},
		{
			"a picture by its data", picture("data:image/png;base64,AAAA"),
			talk(`[{"type":"image","source":{"type":"base64","data":"AAAA"}},{"type":"text","text":"` + long + `"}]`), true,
		},
		{"another picture", picture("data:image/png;base64,AAAA"), picture("data:image/png;base64,AAAB"), false},
		{"input", `{"input":"` + long + `"}`, talk(`"` + long + `"`), true},
		{"instructions", `{"instructions":"` + long + `","input":"x"}`, `{"system":"` + long + `",` + talk(`"x"`)[1:], true},
	} {
		a, errA := s.Prompt(c.a, true)
		b, errB := s.Prompt(c.b, true)
		if errA != nil || errB != nil || slices.Equal(a.Chain, b.Chain) != c.same || a.Tokens != b.Tokens {
			t.Errorf("%s: %d and %d tokens, %v, %v", c.name, a.Tokens, b.Tokens, errA, errB)
		}
	}
	short, err := s.Prompt(picture("data:image/png;base64,AAAA"), true)
	big, err2 := s.Prompt(picture("data:image/png;base64,"+strings.Repeat("AAAA", 9999)), true)
	if err != nil || err2 != nil || short.Tokens != big.Tokens || short.Tokens < 1105 {
		t.Errorf("pictures of %d and %d tokens, %v, %v", short.Tokens, big.Tokens, err, err2)
	}
}

// TestModelsOfAServer asks for a model that a server has not, in all calls that name one.
func TestModelsOfAServer(t *testing.T) {
	s := start(t, vllmsim.Config{Model: "base", Aliases: []string{"also"}, Adapters: []string{"here"}})
	list := gjson.Get(must(t, http.MethodGet, s.URL()+"/v1/models", "").body, "data.#.[id,parent]").Raw
	if want := `[["base",null],["also",null],["here","base"]]`; list != want {
		t.Errorf("the list is %s, want %s", list, want)
	}
	for model, want := range map[string]int{"base": 200, "also": 200, "here": 200, "gone": 404} {
		body := fmt.Sprintf(`{"model":%q,"max_tokens":1,"messages":[{"role":"user","content":"x"}]}`, model)
		for _, path := range []string{chatPath, messagesPath, messagesPath + "/count_tokens", "/tokenize"} {
			got := must(t, http.MethodPost, s.URL()+path, body)
			if got.status != want || want == 404 && (gjson.Get(got.body, "error.type").Str != "NotFoundError" ||
				gjson.Get(got.body, "error.message").Str != "The model `gone` does not exist.") {
				t.Errorf("%s at %s: %d %s", model, path, got.status, got.body)
			}
		}
	}
}

// TestStreamsOfAPIs reads the events of a stream: what comes at once, the text, and what it took.
func TestStreamsOfAPIs(t *testing.T) {
	s := start(t, vllmsim.Config{})
	for _, c := range []struct{ path, body, first, delta, last, usage string }{
		{messagesPath, chat("x", 3, `,"stream":true`), "message_start", "delta.text", "message_stop", "usage"},
		{
			responsesPath, `{"input":"x","max_output_tokens":3,"stream":true}`, "response.created", "delta",
			"response.completed", "response.usage",
		},
	} {
		var kinds []string
		text, used := "", gjson.Result{}
		for _, line := range strings.Split(must(t, http.MethodPost, s.URL()+c.path, c.body).body, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				kinds = append(kinds, gjson.Get(data, "type").Str)
				if v := gjson.Get(data, c.delta); v.Type == gjson.String {
					text += v.Str
				}
				if v := gjson.Get(data, c.usage); v.Exists() {
					used = v
				}
			}
		}
		if kinds[0] != c.first || kinds[len(kinds)-1] != c.last || len(text) != 3*4 ||
			used.Get("output_tokens").Int() != 3 || used.Get("input_tokens").Int() != 5 {
			t.Errorf("%s: %q, text %q, usage %s", c.path, kinds, text, used.Raw)
		}
	}
	count := must(t, http.MethodPost, s.URL()+messagesPath+"/count_tokens", chat("x", 3, "")).body
	if count != `{"input_tokens":5}` {
		t.Errorf("counted %s", count)
	}
}

// TestAnswersAreHeld follows an answer up where it was given, elsewhere, and after a reset.
func TestAnswersAreHeld(t *testing.T) {
	s, other := start(t, vllmsim.Config{}), start(t, vllmsim.Config{})
	ask := func(s *vllmsim.Server, previous string) gjson.Result {
		body := `{"input":"` + strings.Repeat("word ", 40) + `","max_output_tokens":20`
		if previous != "" {
			body += `,"previous_response_id":"` + previous + `"`
		}
		got := must(t, http.MethodPost, s.URL()+responsesPath, body+"}")
		return gjson.Parse(got.body)
	}
	first := ask(s, "")
	second := ask(s, first.Get("id").Str)
	third := ask(s, second.Get("id").Str)
	prompt := func(r gjson.Result) int64 { return r.Get("usage.input_tokens").Int() }
	const cachedTokens = "usage.input_tokens_details.cached_tokens"
	if prompt(second) < 2*prompt(first) || prompt(third) < 3*prompt(first) ||
		third.Get(cachedTokens).Int() < prompt(second) {
		t.Errorf("%s, then %s, then %s", first.Raw, second.Raw, third.Raw)
	}
	s.Reset()
	for _, r := range []gjson.Result{ask(other, first.Get("id").Str), ask(s, first.Get("id").Str), ask(s, "resp_1")} {
		if r.Get("error.code").Int() != 404 || !strings.HasSuffix(r.Get("error.message").Str, "' not found.") {
			t.Errorf("what is not held is answered %s", r.Raw)
		}
	}
}
