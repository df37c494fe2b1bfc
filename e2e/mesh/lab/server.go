package lab

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Server is a simulated model server, which is idle by its metrics unless it is told to be busy. A request with the
// header x-hold is answered when Release is called; one with x-stream at once, by events that end with Release; one
// whose header x-fail is the server's address is answered 503.
type Server struct {
	*httptest.Server
	busy atomic.Bool // by its metrics

	mu   sync.Mutex
	held []chan struct{}
	seen []http.Header
}

// Servers starts n servers, until the test ends. Each has an address of its own on this machine, as pods have: Istio
// knows the endpoints of a service by that.
func Servers(t testing.TB, n int) []*Server {
	t.Helper()
	list := make([]*Server, n)
	for i := range list {
		s := new(Server)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", i+1))
		if err != nil {
			t.Fatal(err)
		}
		s.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}}
		s.Start()
		t.Cleanup(func() { s.Release(-1); s.Close() })
		list[i] = s
	}
	return list
}

// Addr returns ip:port.
func (s *Server) Addr() string { return s.Listener.Addr().String() }

// Seen returns the headers of the requests so far, health checks and scrapes left out.
func (s *Server) Seen() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Held returns how many requests wait for Release, or are answered until then.
func (s *Server) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Release ends the answers to the n requests that have waited for the longest time, all for a negative n.
func (s *Server) Release(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; n != 0 && len(s.held) > 0; n-- {
		close(s.held[0])
		s.held = s.held[1:]
	}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
		return
	case "/metrics":
		running, waiting, used := 0, 0, 0.
		if s.busy.Load() {
			running, waiting, used = 32, 64, 0.9
		}
		const page = "vllm:num_requests_running %d\nvllm:num_requests_waiting %d\nvllm:kv_cache_usage_perc %v\n"
		_, _ = fmt.Fprintf(w, page, running, waiting, used)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("x-served-by", s.Addr())
	switch released := s.arrived(r); {
	case r.Header.Get(streamed) != "":
		stream(w, r, released)
		return
	case released != nil:
		<-released
	}
	if r.Header.Get("x-fail") == s.Addr() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("content-type", "application/json")
	_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":10,"completion_tokens":10}}`)
}

// arrived notes a request, and returns what Release closes for it; nil if it does not wait for that.
func (s *Server) arrived(r *http.Request) (released chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, r.Header)
	if r.Header.Get("x-hold") != "" || r.Header.Get(streamed) != "" {
		released = make(chan struct{})
		s.held = append(s.held, released)
	}
	return released
}

// What is sent of a stream, and the header that asks for one.
const (
	streamed = "x-stream"
	event    = `data: {"choices":[{"delta":{"content":"word "}}]}` + "\n\n"
	lastOne  = "data: [DONE]\n\n"
)

// stream sends events until the request is released, or the client has left.
func stream(w http.ResponseWriter, r *http.Request, released <-chan struct{}) {
	w.Header().Set("content-type", "text/event-stream")
	often := time.NewTicker(100 * time.Millisecond)
	defer often.Stop()
	for {
		_, _ = io.WriteString(w, event)
		w.(http.Flusher).Flush()
		select {
		case <-released:
			_, _ = io.WriteString(w, lastOne)
			return
		case <-r.Context().Done():
			return
		case <-often.C:
		}
	}
}
