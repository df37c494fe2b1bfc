package quotasim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Buckets start full, refill at their rate and never hold more than a minute brings.
func TestLimits(t *testing.T) {
	now := time.Unix(1000, 0)
	l := newLimits(600, 60, now)
	if r := l.take(now, 500, ""); r.refused != "" || r.tokens.level != 100 || r.requests.level != 59 {
		t.Errorf("%+v", r)
	}
	if r := l.take(now, 150, ""); r.refused != ByTokens || r.wait != 5*time.Second || r.tokens.level != 100 {
		t.Errorf("%+v", r)
	}
	l.giveBack(now, 20)
	if r := l.take(now.Add(3*time.Second), 150, ""); r.refused != "" || r.tokens.level != 0 {
		t.Errorf("%+v", r)
	}
	now = now.Add(time.Hour)
	if r := l.take(now, 5000, ""); r.refused != "" || r.tokens.level != -4400 {
		t.Errorf("one that is larger than the full bucket: %+v", r)
	}
	l = newLimits(600, 2, now)
	for range 2 {
		l.take(now, 1, "")
	}
	if r := l.take(now, 1, ""); r.refused != ByRequests || r.wait != 30*time.Second {
		t.Errorf("%+v", r)
	}
	if r := l.take(now, 1, BySlots); r.refused != BySlots || r.wait != slotWait || r.tokens.level != 598 {
		t.Errorf("%+v", r)
	}
}

func send(t *testing.T, url string, prompt, limit int, w Work) *http.Response {
	t.Helper()
	text := fmt.Sprintf(`{"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, limit, Prompt(prompt))
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	w.Set(r.Header)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// A call is charged for the most it may use, and answered with what it has used; what is refused says until when.
func TestModel(t *testing.T) {
	for _, anthropic := range []bool{false, true} {
		m := New(Config{
			Name: "m", Slots: 1, TokensPerMinute: 1000, RequestsPerMinute: 100, Speed: 2, Anthropic: anthropic,
		})
		server := httptest.NewServer(m)
		t.Cleanup(server.Close)
		resp := send(t, server.URL, 600, 300, Work{Task: "1", Output: 100})
		var answer struct {
			Usage struct {
				Prompt int `json:"prompt_tokens"`
				Output int `json:"completion_tokens"`
			}
		}
		if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
			t.Fatal(err)
		}
		if u := answer.Usage; u.Prompt != 600 || u.Output != 100 {
			t.Errorf("%+v", u)
		}
		name := "X-Ratelimit-Remaining-Tokens"
		if anthropic {
			name = "Anthropic-Ratelimit-Tokens-Remaining"
		}
		if left := resp.Header.Get(name); left != "100" {
			t.Errorf("%s: %s", name, left)
		}
		resp = send(t, server.URL, 300, 300, Work{Task: "2", Output: 300})
		if wait := resp.Header.Get("Retry-After"); resp.StatusCode != 429 || wait != "18" {
			t.Errorf("%d, retry-after %s", resp.StatusCode, wait)
		}
		if body, _ := io.ReadAll(resp.Body); !json.Valid(body) {
			t.Errorf("%s", body)
		}
		calls := m.Calls()
		if len(calls) != 2 || calls[0].Charged != 900 || calls[0].Used != 700 || calls[1].Refused != ByTokens {
			t.Errorf("%+v", calls)
		}
		resp = send(t, server.URL, 1, 1, Work{})
		if resp.StatusCode != 200 {
			t.Errorf("what was not used is not given back: %d", resp.StatusCode)
		}
	}
}

// One slot is one call at a time; a client that leaves frees it.
func TestSlots(t *testing.T) {
	m := New(Config{Slots: 1, TokensPerMinute: 1000, RequestsPerMinute: 100, Speed: 1})
	if _, left := m.begin("1", 1, 1); left.refused != "" {
		t.Error(left.refused)
	}
	if _, left := m.begin("2", 1, 1); left.refused != BySlots {
		t.Errorf("%q", left.refused)
	}
	m.end(0, true)
	if _, left := m.begin("3", 1, 1); left.refused != "" {
		t.Error(left.refused)
	}
	if calls := m.Calls(); !calls[0].Left || calls[2].Left {
		t.Errorf("%+v", calls)
	}
}
