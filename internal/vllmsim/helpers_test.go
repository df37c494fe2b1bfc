package vllmsim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/internal/vllmsim/vllmsimtest"
)

// patience is how long a test waits for something that takes milliseconds on an idle machine.
const patience = 5 * time.Minute

// start runs a server without latency unless the configuration sets one.
func start(t *testing.T, cfg vllmsim.Config) *vllmsim.Server {
	t.Helper()
	if cfg.Tuning == (vllmsim.Tuning{}) {
		cfg.Tuning = vllmsim.NoLatency()
	}
	return vllmsimtest.StartT(t, cfg)
}

// endless is a tuning under which an answer of a few hundred tokens outlives any test.
func endless() vllmsim.Tuning {
	t := vllmsim.NoLatency()
	t.DecodeStepMS = 1000
	return t
}

// reply is the end of an exchange.
type reply struct {
	status int
	header http.Header
	body   string
}

// send makes a request and reads the whole reply; the error is one of the connection.
func send(ctx context.Context, method, url, body string, header ...string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b)}, err
}

// must makes a request that has to be answered.
func must(t *testing.T, method, url, body string, header ...string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := send(ctx, method, url, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	return got
}

// chat is the body of a request with one user message; extra adds fields (`,"stream":true`).
func chat(message string, maxTokens int, extra string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":%q}]%s}`, maxTokens, message, extra)
}

// completion is what tests read of an answer or of one event of a stream.
type completion struct {
	ID      string
	Object  string
	Model   string
	Choices []struct {
		Text    string
		Message struct{ Role, Content string }
		Delta   struct{ Role, Content string }

		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		TotalTokens      int `json:"total_tokens"`
		CompletionTokens int `json:"completion_tokens"`

		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
}

func decode(t *testing.T, text string) completion {
	t.Helper()
	var c completion
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return c
}

// complete posts a request that has to succeed and returns the answer.
func complete(t *testing.T, s *vllmsim.Server, path, body string) completion {
	t.Helper()
	got := must(t, http.MethodPost, s.URL()+path, body)
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	return decode(t, got.body)
}

// events splits a stream into its events; the last one has to be the end mark.
func events(t *testing.T, stream string) []completion {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n")
	last := len(lines) - 1
	if lines[last] != "data: [DONE]" {
		t.Fatalf("the stream ends with %q", lines[last])
	}
	var list []completion
	for _, l := range lines[:last] {
		list = append(list, decode(t, strings.TrimPrefix(l, "data: ")))
	}
	return list
}

// eventually waits until the server's state is as wanted.
func eventually(t *testing.T, s *vllmsim.Server, what string, ok func(vllmsim.State) bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		st := s.State()
		if ok(st) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in %v; state %+v", what, patience, st)
		}
	}
}

// background sends a request that ends with the context or the server, whatever comes first.
func background(ctx context.Context, url, body string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := send(ctx, http.MethodPost, url, body)
		done <- err
	}()
	return done
}

func setTuning(t *testing.T, s *vllmsim.Server, tuning vllmsim.Tuning) {
	t.Helper()
	if err := s.SetTuning(tuning); err != nil {
		t.Fatal(err)
	}
}
