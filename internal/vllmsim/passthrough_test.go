package vllmsim_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/vllmsim"
)

func TestUpgradeEcho(t *testing.T) {
	s := start(t, vllmsim.Config{})
	conn, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	// The key and its answer are the example of RFC 6455, section 1.3. The first bytes come
	// with the handshake.
	fmt.Fprint(conn, "GET /ws HTTP/1.1\r\nHost: sim\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nearly ")
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 101 || resp.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("status %d, headers %v", resp.StatusCode, resp.Header)
	}
	fmt.Fprint(conn, "and late")
	echo := make([]byte, len("early and late"))
	if _, err := io.ReadFull(r, echo); err != nil || string(echo) != "early and late" {
		t.Errorf("echo %q, %v", echo, err)
	}
	if st := s.State(); st.Inflight != 1 {
		t.Errorf("%d in flight with an open WebSocket, want 1", st.Inflight)
	}
	conn.Close()
	eventually(t, s, "closed", func(st vllmsim.State) bool { return st.Inflight == 0 && st.Statuses[101] == 1 })
	if got := must(t, http.MethodGet, s.URL()+"/ws", ""); got.status != http.StatusUpgradeRequired {
		t.Errorf("without Upgrade: status %d, want 426", got.status)
	}
}

// h2c is a client that speaks HTTP/2 without TLS.
func h2c(t *testing.T) *http.Client {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: &p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func TestGRPCEcho(t *testing.T) {
	s := start(t, vllmsim.Config{})
	message := []byte("\x00\x00\x00\x00\x05hello")
	for _, c := range []struct {
		name, body, echo, status string
	}{
		{"two messages", string(message) + string(message), string(message) + string(message), "0"},
		{"no message", "", "", "0"},
		{"cut off", string(message[:7]), "", "13"},
		{"too long", "\x00\xff\xff\xff\xff", "", "8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, err := h2c(t).Post(s.URL()+"/sim.Echo/Call", "application/grpc", strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			echo, err := io.ReadAll(resp.Body)
			if err != nil || string(echo) != c.echo || resp.ProtoMajor != 2 {
				t.Errorf("echo %q over %s, %v", echo, resp.Proto, err)
			}
			if got := resp.Trailer.Get("grpc-status"); got != c.status {
				t.Errorf("grpc-status %q, want %q", got, c.status)
			}
		})
	}
	if got := must(t, http.MethodPost, s.URL()+"/sim.Echo/Call", "x"); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("without the content type: status %d, want 415", got.status)
	}
}

func TestResetOverHTTP2(t *testing.T) {
	s := start(t, vllmsim.Config{})
	change(t, s, func(u *vllmsim.Tuning) { u.Mode, u.ResetAfterTokens = vllmsim.ModeReset, 0 })
	if resp, err := h2c(t).Post(s.URL()+chatPath, "application/json", strings.NewReader(chat("x", 2, ""))); err == nil {
		resp.Body.Close()
		t.Errorf("status %d, want a stream reset", resp.StatusCode)
	}
	eventually(t, s, "nothing left", func(st vllmsim.State) bool { return st.Inflight == 0 && st.Statuses[0] == 1 })
}

func TestDigest(t *testing.T) {
	s := start(t, vllmsim.Config{})
	body := bytes.Repeat([]byte("0123456789"), 1<<19) // 5 MiB
	got := must(t, http.MethodPut, s.URL()+"/sim/echo", string(body))
	want := fmt.Sprintf(`{"method":"PUT","length":%d,"sha256":"%x"}`, len(body), sha256.Sum256(body))
	if got.body != want {
		t.Errorf("digest %s, want %s", got.body, want)
	}
}

func TestResetCounts(t *testing.T) {
	s := start(t, vllmsim.Config{Tuning: endless()})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	background(ctx, s.URL()+chatPath, chat("x", 500, ""))
	eventually(t, s, "running", func(st vllmsim.State) bool { return st.OutputTokens > 0 })
	s.Reset()
	if st := s.State(); st.Requests != 0 || st.OutputTokens != 0 || st.Inflight != 1 || st.Running != 1 ||
		st.MaxInflight != 1 {
		t.Errorf("state %+v, want counts at 0 and the request still in flight", st)
	}
}
