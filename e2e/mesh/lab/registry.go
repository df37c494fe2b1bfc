package lab

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Hanging is a registry of images that keeps its clients waiting, until Leave is called or the test ends.
type Hanging struct {
	Addr  string // ip:port
	Leave func() // closes the connections, and takes no more

	waiting atomic.Int32
}

// Await waits until clients wait for n answers.
func (h *Hanging) Await(t testing.TB, n int32) {
	t.Helper()
	harness.Await(t, func() error {
		if have := h.waiting.Load(); have < n {
			return fmt.Errorf("%d answers are waited for, want %d", have, n)
		}
		return nil
	})
}

// Silent starts a registry that accepts connections, and never answers.
func Silent(t testing.TB) *Hanging {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &Hanging{Addr: l.Addr().String(), Leave: func() { l.Close() }}
	t.Cleanup(h.Leave)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close() // all of them, when the listener is closed
			h.waiting.Add(1)
		}
	}()
	return h
}

// Endless starts a registry that answers as images does, but never ends a blob.
func Endless(t testing.TB, images http.Handler) *Hanging {
	t.Helper()
	h := new(Hanging)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			images.ServeHTTP(w, r)
			return
		}
		_, _ = w.Write([]byte("\x00asm")) // as a module begins
		_ = http.NewResponseController(w).Flush()
		h.waiting.Add(1)
		<-r.Context().Done()
	}))
	h.Addr = server.Listener.Addr().String()
	h.Leave = func() {
		server.Listener.Close()
		server.CloseClientConnections()
		server.Close()
	}
	t.Cleanup(h.Leave)
	return h
}
