package loadgen

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func TestRawCountsEveryResponse(t *testing.T) {
	body := strings.Repeat("x", 3000)
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		if string(got) != body || r.URL.Path != "/p" {
			t.Errorf("%s with %d bytes", r.URL.Path, len(got))
		}
		switch served.Add(1) % 4 {
		case 0:
			w.WriteHeader(503)
		case 1: // chunked
			_, _ = io.WriteString(w, "part")
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, strings.Repeat("y", 100))
		default:
			_, _ = io.WriteString(w, "done")
		}
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	res, err := Raw{
		Addr: addr, Request: PostRequest(addr, "/p", []byte(body)), Connections: 3,
		Requests: 100,
	}.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if res.Requests != 100 || served.Load() != 100 || res.Non200 != 25 || res.Errors != 0 {
		t.Errorf("served %d, result %+v", served.Load(), res)
	}
	if res.Latency.P50 <= 0 || res.Latency.P50 > res.Latency.P99 || res.Rate <= 0 {
		t.Errorf("latency %+v rate %v", res.Latency, res.Rate)
	}
}

func TestRawSurvivesBrokenConnections(t *testing.T) {
	var served atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if served.Add(1) == 5 {
			panic(http.ErrAbortHandler)
		}
	}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	res, err := Raw{Addr: addr, Request: PostRequest(addr, "/", nil), Requests: 20}.Run(context.Background())
	if err != nil || res.Errors != 1 || res.Requests != 19 || res.Detail == "" {
		t.Errorf("result %+v, %v: want 19 responses and 1 broken connection", res, err)
	}
}

func TestRawStops(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	addr := srv.Listener.Addr().String()
	if _, err := (Raw{Addr: addr}).Run(context.Background()); err == nil {
		t.Error("a run without a limit was accepted")
	}
	srv.Close()
	none := Raw{Addr: addr, Request: PostRequest(addr, "/", nil), Requests: 3}
	if _, err := none.Run(context.Background()); err == nil {
		t.Error("no server, yet no error")
	}
}

func TestReadResponseRejectsGarbage(t *testing.T) {
	for _, bad := range []string{
		"", "HTTP\r\n", "HTTP/1.1 abc no\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", "HTTP/1.1 200 OK\r\nTransfer-Encoding: " +
			"chunked\r\n\r\nzz\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", "HTTP/1.1 200 OK\r\n",
	} {
		if _, err := readResponse(bufio.NewReader(strings.NewReader(bad))); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func BenchmarkRaw(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	b.ReportAllocs()
	all := Raw{Addr: addr, Request: PostRequest(addr, "/", nil), Requests: b.N}
	if _, err := all.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
}
