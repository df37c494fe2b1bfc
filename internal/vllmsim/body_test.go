package vllmsim_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/warmgate/warmgate/internal/vllmsim"
)

func TestStatusFromBody(t *testing.T) {
	s := start(t, vllmsim.Config{})
	for _, c := range []struct {
		body string
		want int
	}{
		{chat("x", 1, `,"sim_status":501`), 501},
		{chat("x", 1, `,"sim_status":505`), 505},
		{`{"sim_status":500,"messages":[{"role":"user","content":"cut off`, 500},
		{chat("x", 1, `,"sim_status":200`), 200},
		{chat(`"sim_status":500`, 1, ""), 200},
		{`{"messages":[{"role":"user","content":"cut off`, 400},
	} {
		if got := must(t, http.MethodPost, s.URL()+chatPath, c.body); got.status != c.want {
			t.Errorf("%s: status %d, want %d", c.body, got.status, c.want)
		}
	}
}

// TestBodyTimeout has one body that comes whole and one that stalls, on connections of their own.
func TestBodyTimeout(t *testing.T) {
	s := start(t, vllmsim.Config{})
	change(t, s, func(u *vllmsim.Tuning) { u.BodyTimeoutMS = 40 })
	complete(t, s, chatPath, chat("x", 1, ""))
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 999\r\n\r\n{", chatPath)
	if answer, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a body that stalls got %q, %v, want a reset", answer, err)
	}
	eventually(t, s, "one reset", func(st vllmsim.State) bool { return st.Inflight == 0 && st.Statuses[0] == 1 })
	complete(t, s, chatPath, chat("y", 1, ""))
}

func TestModelThatStops(t *testing.T) {
	s := start(t, vllmsim.Config{})
	const huge = 1_000_000
	if got := must(t, http.MethodPost, s.URL()+chatPath, chat("x", huge, "")); got.status != 400 {
		t.Errorf("status %d for an answer that does not fit, want 400", got.status)
	}
	change(t, s, func(u *vllmsim.Tuning) { u.AnswerTokens = 7 })
	for limit, want := range map[int]int{huge: 7, 7: 7, 3: 3} {
		if got := complete(t, s, chatPath, chat("x", limit, "")); got.Usage.CompletionTokens != want {
			t.Errorf("limit %d: %d tokens, want %d", limit, got.Usage.CompletionTokens, want)
		}
	}
}

func TestLenient(t *testing.T) {
	strict, lenient := start(t, vllmsim.Config{}), start(t, vllmsim.Config{Lenient: true})
	for _, body := range []string{chat("x", 1, `,"temperature":NaN`), "\ufeff" + chat("x", 1, "")} {
		if got := must(t, http.MethodPost, strict.URL()+chatPath, body); got.status != 400 {
			t.Errorf("%s: status %d, want 400", body, got.status)
		}
		complete(t, lenient, chatPath, body)
	}
}

func TestMessages(t *testing.T) {
	const path = "/v1/messages"
	s := start(t, vllmsim.Config{})
	if got := must(t, http.MethodPost, s.URL()+path, chat("x", 3, "")); got.status != 200 ||
		!strings.Contains(got.body, `"content":[{"type":"text","text":"`) ||
		!strings.Contains(got.body, `"output_tokens":3}`) || strings.Contains(got.body, "cached") {
		t.Errorf("%d %s", got.status, got.body)
	}
	tool := chat("x", 3, `,"sim_tool_input":{"cached_tokens":900}`)
	const call = `"input":{"cached_tokens":900}}],"stop_reason":"tool_use"`
	if got := must(t, http.MethodPost, s.URL()+path, tool); !strings.Contains(got.body, call) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestWatch(t *testing.T) {
	var begun, ended atomic.Int64
	s := start(t, vllmsim.Config{Watch: func(r *http.Request) func() {
		if r.Header.Get("x-who") == "me" {
			begun.Add(1)
		}
		return func() { ended.Add(1) }
	}})
	must(t, http.MethodPost, s.URL()+chatPath, chat("x", 1, ""), "x-who", "me")
	must(t, http.MethodPost, s.URL()+chatPath, chat("x", 1, `,"sim_status":500`), "x-who", "me")
	must(t, http.MethodGet, s.URL()+"/health", "", "x-who", "me")
	eventually(t, s, "two watched", func(vllmsim.State) bool { return begun.Load() == 2 && ended.Load() == 2 })
}
