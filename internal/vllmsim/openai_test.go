package vllmsim_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

const (
	chatPath = "/v1/chat/completions"
	textPath = "/v1/completions"
)

func TestWholeAnswers(t *testing.T) {
	s := start(t, vllmsim.Config{Index: 3, Model: "base"})
	for _, c := range []struct {
		name, path, body, object string
		prompt                   int
	}{
		// "user: hello world\nassistant: " is 29 bytes.
		{"chat", chatPath, chat("hello world", 5, ""), "chat.completion", 8},
		{"chat, content in parts", chatPath, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"hello "},{"type":"text","text":"world"}]}]}`, "chat.completion", 8},
		{"max_completion_tokens", chatPath, `{"model":"m","max_completion_tokens":5,"messages":[{"role":"user","content":"hello world"}]}`, "chat.completion", 8},
		{"text", textPath, `{"model":"m","prompt":"12345678","max_tokens":5}`, "text_completion", 2},
		{"text in a list", textPath, `{"model":"m","prompt":["12345678"],"max_tokens":5}`, "text_completion", 2},
		{"token ids", textPath, `{"model":"m","prompt":[1,2,3],"max_tokens":5}`, "text_completion", 3},
		{"token ids in a list", textPath, `{"model":"m","prompt":[[1,2,3]],"max_tokens":5}`, "text_completion", 3},
		{"empty prompt", textPath, `{"model":"m","prompt":"","max_tokens":5}`, "text_completion", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := must(t, http.MethodPost, s.URL()+c.path, c.body)
			if got.status != http.StatusOK || got.header.Get("x-sim-id") != "3" {
				t.Fatalf("status %d, x-sim-id %q: %s", got.status, got.header.Get("x-sim-id"), got.body)
			}
			a := decode(t, got.body)
			if a.Object != c.object || a.Model != "m" || *a.Choices[0].FinishReason != "length" {
				t.Errorf("answer %s", got.body)
			}
			if text := a.Choices[0].Text + a.Choices[0].Message.Content; len(strings.Fields(text)) != 5 {
				t.Errorf("text %q, want 5 words", text)
			}
			if u := a.Usage; u.PromptTokens != c.prompt || u.CompletionTokens != 5 || u.TotalTokens != c.prompt+5 {
				t.Errorf("usage %+v, want %d prompt tokens and 5 more", *u, c.prompt)
			}
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	s := start(t, vllmsim.Config{Config: enginesim.Config{MaxModelLen: 64}})
	for _, c := range []struct {
		name, path, body string
		status           int
	}{
		{"not JSON", chatPath, `{"messages":`, 400},
		{"no messages", chatPath, `{"model":"m"}`, 400},
		{"empty messages", chatPath, `{"messages":[]}`, 400},
		{"prompt for chat", chatPath, `{"prompt":"x"}`, 400},
		{"no prompt", textPath, `{"model":"m"}`, 400},
		{"two prompts", textPath, `{"prompt":["a","b"]}`, 400},
		{"negative token", textPath, `{"prompt":[-1]}`, 400},
		{"object as prompt", textPath, `{"prompt":{}}`, 400},
		{"no token wanted", chatPath, chat("x", 0, ""), 400},
		{"two answers wanted", chatPath, chat("x", 1, `,"n":2`), 400},
		{"too long", chatPath, chat(strings.Repeat("x", 300), 1, ""), 400},
		{"answer too long", chatPath, chat("x", 64, ""), 400},
		{"unknown route", "/v1/embeddings", `{}`, 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := must(t, http.MethodPost, s.URL()+c.path, c.body)
			if got.status != c.status || !strings.Contains(got.body, `"error":{"message":"`) {
				t.Errorf("status %d, body %s; want %d with an error", got.status, got.body, c.status)
			}
		})
	}
	if got := must(t, http.MethodGet, s.URL()+chatPath, ""); got.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d, want 405", got.status)
	}
}

func TestStream(t *testing.T) {
	s := start(t, vllmsim.Config{})
	for _, path := range []string{chatPath, textPath} {
		whole := complete(t, s, path, bodyFor(path, ""))
		got := must(t, http.MethodPost, s.URL()+path, bodyFor(path, `,"stream":true,"stream_options":{"include_usage":true}`))
		if ct := got.header.Get("Content-Type"); !strings.HasPrefix(ct, "text/event-stream") {
			t.Errorf("%s: content type %q", path, ct)
		}
		list := events(t, got.body)
		text, finish := "", ""
		for _, e := range list[:len(list)-1] {
			if e.Usage != nil || e.ID != list[0].ID {
				t.Errorf("%s: event %+v", path, e)
			}
			text += e.Choices[0].Text + e.Choices[0].Delta.Content
			if r := e.Choices[0].FinishReason; r != nil {
				finish += *r
			}
		}
		if want := whole.Choices[0].Text + whole.Choices[0].Message.Content; text != want || finish != "length" {
			t.Errorf("%s: streamed %q, finish %q; want %q, length", path, text, finish, want)
		}
		end := list[len(list)-1]
		if len(end.Choices) != 0 || end.Usage == nil || end.Usage.CompletionTokens != 6 ||
			end.Usage.Details.Cached != 16 {
			t.Errorf("%s: last event %+v, want the usage with 16 cached tokens", path, end)
		}
		plain := events(t, must(t, http.MethodPost, s.URL()+path, bodyFor(path, `,"stream":true`)).body)
		if last := plain[len(plain)-1]; last.Usage != nil || len(plain) != len(list)-1 {
			t.Errorf("%s: usage was not requested, but the last event is %+v", path, last)
		}
	}
}

// The end of a stream comes as late as its request orders; a client that leaves meanwhile ends it.
func TestStreamLingers(t *testing.T) {
	s := start(t, vllmsim.Config{})
	began := time.Now()
	got := must(t, http.MethodPost, s.URL()+chatPath, chat("x", 3, `,"stream":true,"sim_linger_ms":200`))
	if took := time.Since(began); took < 200*time.Millisecond || !strings.Contains(got.body, "[DONE]") {
		t.Errorf("%q after %v", got.body, took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := send(ctx, http.MethodPost, s.URL()+chatPath, chat("x", 3, `,"stream":true,"sim_linger_ms":60000`))
	if err == nil {
		t.Error("a client that has left got an answer")
	}
}

// bodyFor is a request of more than one block (16 tokens) and less than two.
func bodyFor(path, extra string) string {
	text := strings.Repeat("x", 80)
	if path == chatPath {
		return chat(text, 6, extra)
	}
	return `{"model":"text","prompt":"` + text + `","max_tokens":6` + extra + `}`
}

func TestConversationFindsItsPast(t *testing.T) {
	s := start(t, vllmsim.Config{})
	question := strings.Repeat("why is that so? ", 8)
	first := complete(t, s, chatPath, chat(question, 40, ""))
	answer := first.Choices[0].Message.Content
	body := func(salt string) string {
		return `{"model":"m","max_tokens":1` + salt + `,"messages":[{"role":"user","content":"` + question +
			`"},{"role":"assistant","content":"` + answer + `"},{"role":"user","content":"go on"}]}`
	}
	next := complete(t, s, chatPath, body(""))
	// All full blocks of the first turn but the one with the never computed last token.
	past := first.Usage.TotalTokens - 1
	if want := past - past%16; next.Usage.Details.Cached != want {
		t.Errorf("%d tokens cached of a conversation of %d, want %d", next.Usage.Details.Cached, past, want)
	}
	if salted := complete(t, s, chatPath, body(`,"cache_salt":"tenant"`)); salted.Usage.Details.Cached != 0 {
		t.Errorf("another tenant's request finds %d cached tokens", salted.Usage.Details.Cached)
	}
	s.Reset()
	if cold := complete(t, s, chatPath, body("")); cold.Usage.Details.Cached != 0 {
		t.Errorf("%d tokens cached after Reset", cold.Usage.Details.Cached)
	}
}

func TestDeterminism(t *testing.T) {
	text := func(seed uint64, message string) string {
		s := start(t, vllmsim.Config{Seed: seed})
		open := `{"messages":[{"role":"user","content":"` + message + `"}]}`
		return complete(t, s, chatPath, open).Choices[0].Message.Content
	}
	base := text(1, "hello")
	if again := text(1, "hello"); again != base {
		t.Errorf("two servers of one seed answer %q and %q", base, again)
	}
	if text(2, "hello") == base || text(1, "goodbye") == base {
		t.Error("neither seed nor prompt may be without effect")
	}
}

// TestOpenEndedAnswers checks that answers without max_tokens have the configured mean length, end without a limit and
// are not all alike.
func TestOpenEndedAnswers(t *testing.T) {
	s := start(t, vllmsim.Config{OutputTokens: 20})
	total, lengths := 0, map[int]bool{}
	const n = 300
	for i := range n {
		a := complete(t, s, chatPath, `{"messages":[{"role":"user","content":"question `+strconv.Itoa(i)+`"}]}`)
		if reason := *a.Choices[0].FinishReason; reason != "stop" {
			t.Fatalf("an open answer ended with %q", reason)
		}
		total += a.Usage.CompletionTokens
		lengths[a.Usage.CompletionTokens] = true
	}
	// The standard error of the mean is 20/√300 = 1.2; the draws are the same in every run.
	if mean := float64(total) / n; mean < 15 || mean > 25 || len(lengths) < 20 {
		t.Errorf("mean length %.1f with %d different lengths, want 20 and many", mean, len(lengths))
	}
}

func TestInstant(t *testing.T) {
	s := start(t, vllmsim.Config{Instant: true})
	a := complete(t, s, chatPath, chat("hello", 7, ""))
	if len(strings.Fields(a.Choices[0].Message.Content)) != 7 || a.Usage.CompletionTokens != 7 {
		t.Errorf("answer %+v, want 7 words", a)
	}
	list := events(t, must(t, http.MethodPost, s.URL()+chatPath, chat("hello", 7, `,"stream":true`)).body)
	if len(list) != 8 {
		t.Errorf("%d events, want the role and 7 words", len(list))
	}
	if st := s.State(); st.Requests != 2 || st.OutputTokens != 14 || st.Statuses[200] != 2 {
		t.Errorf("state %+v", st)
	}
}

func TestLoadReportHeader(t *testing.T) {
	s := start(t, vllmsim.Config{})
	for _, c := range []struct{ format, want string }{
		{"TEXT", "TEXT named_metrics.num_requests_waiting=0.0, named_metrics.kv_cache_usage_perc=0.0"},
		{"JSON", `JSON {"named_metrics": {"num_requests_waiting": 0.0, "kv_cache_usage_perc": 0.0}}`},
		{"BIN", ""},
	} {
		got := must(t, http.MethodPost, s.URL()+chatPath, chat("x", 1, ""), "endpoint-load-metrics-format", c.format)
		if v := got.header.Get("endpoint-load-metrics"); v != c.want {
			t.Errorf("%s: %q, want %q", c.format, v, c.want)
		}
		stream := must(t, http.MethodPost, s.URL()+chatPath, chat("x", 1, `,"stream":true`), "endpoint-load-metrics-format", c.format)
		if v, ok := stream.header["Endpoint-Load-Metrics"]; ok {
			t.Errorf("%s: a stream carries %q", c.format, v)
		}
	}
}

func TestModels(t *testing.T) {
	s := start(t, vllmsim.Config{Model: `a"b`, Config: enginesim.Config{MaxModelLen: 100}})
	got := must(t, http.MethodGet, s.URL()+"/v1/models", "")
	if got.status != http.StatusOK || !strings.Contains(got.body, `"id":"a\"b"`) || !strings.Contains(got.body, `"max_model_len":100}`) {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	if a := complete(t, s, textPath, `{"prompt":"x","max_tokens":1}`); a.Model != `a"b` {
		t.Errorf("model %q when the request names none", a.Model)
	}
}
