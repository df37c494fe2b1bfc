package loadgen

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRawOpenKeepsItsTimes(t *testing.T) {
	var mu sync.Mutex
	seen, clients := map[string]bool{}, map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		seen[string(body)], clients[r.RemoteAddr] = true, true
		if len(seen) == 7 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	const n, rate = 100, 500
	res, err := RawOpen{Addr: addr, Rate: rate, Requests: n, Request: func(i int) net.Buffers {
		request := PostRequest(addr, "/p", []byte(strings.Repeat("x", i)))
		return net.Buffers{request[:10], request[10:]}
	}}.Run(context.Background())
	if err != nil || res.Requests != n || res.Non200 != 1 || res.Errors != 0 || !strings.Contains(res.Detail, "503") {
		t.Fatalf("%+v, %v", res, err)
	}
	if len(seen) != n || len(clients) == n {
		t.Errorf("%d different bodies on %d connections", len(seen), len(clients))
	}
	// The times are random, but the same ones each time: 0.2 s in the mean.
	if res.Elapsed < 100*time.Millisecond || res.Latency.P50 < res.Late.P50 || res.Latency.P50 <= 0 {
		t.Errorf("%+v", res)
	}
}

// TestRawOpenIsLate checks that time in which a request waits for a connection is part of its latency.
func TestRawOpenIsLate(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		time.Sleep(20 * time.Millisecond)
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	res, err := RawOpen{Addr: addr, Rate: 1e6, Requests: 5, Connections: 1, Request: func(int) net.Buffers {
		return net.Buffers{PostRequest(addr, "/", nil)}
	}}.Run(context.Background())
	if err != nil || res.Late.Max < 80*time.Millisecond || res.Latency.Max < 100*time.Millisecond {
		t.Errorf("%+v, %v: the last of 5 has to wait for 4", res, err)
	}
}

func TestRawOpenFailures(t *testing.T) {
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if served.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
	}))
	addr := srv.Listener.Addr().String()
	o := RawOpen{Addr: addr, Rate: 1000, Requests: 5, Request: func(int) net.Buffers {
		return net.Buffers{PostRequest(addr, "/", nil)}
	}}
	if res, err := o.Run(context.Background()); err != nil || res.Errors != 1 || res.Requests != 4 {
		t.Errorf("%+v, %v", res, err)
	}
	srv.Close()
	if _, err := o.Run(context.Background()); err == nil {
		t.Error("nothing was served, and that is no error")
	}
	for _, bad := range []RawOpen{{Rate: 1}, {Requests: 1}} {
		if _, err := bad.Run(context.Background()); err == nil {
			t.Errorf("%+v was played", bad)
		}
	}
}
