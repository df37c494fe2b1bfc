package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const chunk = `data: {"choices":[{"index":0,"delta":{"content":"tok "}}]}` + "\n\n"

// serve starts a server whose handler sees the whole request body.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c := NewClient(Options{
		URL: srv.URL + "/v1/chat/completions", KeepHeaders: []string{"x-warmgate-host"},
		Timeout: 5 * time.Minute,
	})
	t.Cleanup(c.Close)
	return c
}

// streamed answers with the given text as an event stream.
func streamed(parts ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set(EndpointHeader, "e3")
		w.Header().Set("X-Warmgate-Host", "127.0.0.1:1")
		for _, p := range parts {
			_, _ = io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func request(stream bool) *Request {
	return &Request{ID: 7, Body: []byte(`{"model":"m","messages":[]}`), Stream: stream, MaxTokens: 3}
}

func TestStreamIsMeasured(t *testing.T) {
	usage := `data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n"
	role := `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n"
	c := serve(t, streamed(role, chunk, chunk, ": comment\n\n", chunk, usage, "data: [DONE]\n\n"))
	s := c.Do(context.Background(), request(true), time.Now())
	if !s.OK() || s.Status != 200 || s.Endpoint != "e3" || s.ID != 7 {
		t.Fatalf("sample %+v", s)
	}
	if s.Tokens != 3 || len(s.Gaps) != 2 {
		t.Errorf("tokens %d, gaps %d; want 3 and 2: the role event carries no content", s.Tokens, len(s.Gaps))
	}
	if s.Usage != (Usage{Prompt: 9, Cached: 4, Completion: 3}) {
		t.Errorf("usage %+v", s.Usage)
	}
	if s.TTFT <= 0 || s.TTFT > s.Total {
		t.Errorf("TTFT %v of %v", s.TTFT, s.Total)
	}
	if got := s.Header.Get("x-warmgate-host"); got != "127.0.0.1:1" {
		t.Errorf("kept header %q", got)
	}
}

func TestTextIsKeptOnRequest(t *testing.T) {
	completion := `data: {"choices":[{"index":0,"text":"say \"hi\"\n"}]}` + "\n\n"
	c := serve(t, streamed(chunk, completion, chunk, "data: [DONE]\n\n"))
	q := request(true)
	if s := c.Do(context.Background(), q, time.Now()); s.Text != "" || s.Tokens != 3 {
		t.Errorf("kept %q of %d tokens without KeepText", s.Text, s.Tokens)
	}
	q.KeepText = true
	if s := c.Do(context.Background(), q, time.Now()); s.Text != "tok say \"hi\"\ntok " {
		t.Errorf("kept %q", s.Text)
	}
}

func TestRequestHeadersAndFreshConnections(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	conns := map[string]bool{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Get("X-All")+" "+r.Header.Get("X-One"))
		conns[r.RemoteAddr] = true
		mu.Unlock()
		streamed("data: [DONE]\n\n")(w, r)
	}))
	defer srv.Close()
	for _, fresh := range []bool{false, true} {
		clear(conns)
		seen = nil
		c := NewClient(Options{URL: srv.URL, Header: http.Header{"X-All": {"a"}}, Fresh: fresh})
		for _, one := range []string{"1", "2"} {
			q := request(true)
			q.Header = http.Header{"X-One": {one}}
			if s := c.Do(context.Background(), q, time.Now()); !s.OK() {
				t.Fatalf("%+v", s)
			}
		}
		c.Close()
		if len(seen) != 2 || seen[0] != "a 1" || seen[1] != "a 2" {
			t.Errorf("headers %q", seen)
		}
		if want := map[bool]int{false: 1, true: 2}[fresh]; len(conns) != want {
			t.Errorf("fresh %v: %d connections, want %d", fresh, len(conns), want)
		}
	}
}

func TestFailuresHaveKinds(t *testing.T) {
	hijack := func(prefix string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, prefix)
			_ = conn.Close()
		}
	}
	for _, tc := range []struct {
		name   string
		stream bool
		h      http.HandlerFunc
		want   string
	}{
		{"whole answer", false, streamed(`{"choices":[{}],"usage":{"completion_tokens":3}}`), ""},
		{"not a completion", false, streamed(`{"object":"list"}`), ErrMalformed},
		{"not JSON", false, streamed(`<html>`), ErrMalformed},
		{"empty body", false, streamed(), ErrTruncated},
		{"short body", false, hijack("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"choices\""), ErrTruncated},
		{"reset before headers", false, hijack(""), ErrReset},
		{"status", false, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "status_503"},
		{"status of a stream", true, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, "status_429"},
		{"stream without DONE", true, streamed(chunk, chunk), ErrTruncated},
		{
			"stream cut in a chunk", true,
			hijack("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n80\r\ndata: {}\n\n"), ErrTruncated,
		},
		{"stream with broken JSON", true, streamed("data: {\n\n"), ErrMalformed},
		{"stream with an error object", true, streamed(chunk, `data: {"error":{"message":"no memory"}}`+"\n\ndata: [DONE]\n\n"), ErrEngine},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, tc.h).Do(context.Background(), request(tc.stream), time.Now())
			if s.Error != tc.want {
				t.Errorf("error %q (%s), want %q", s.Error, s.Detail, tc.want)
			}
			if (s.Error == "") != s.OK() {
				t.Errorf("OK %v with error %q", s.OK(), s.Error)
			}
		})
	}
}

func TestNoConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	_ = ln.Close()
	if s := NewClient(Options{URL: url}).Do(context.Background(), request(false), time.Now()); s.Error != ErrConnect {
		t.Errorf("error %q (%s), want %q", s.Error, s.Detail, ErrConnect)
	}
}

func TestTimeoutAndCancelDiffer(t *testing.T) {
	release := make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-release
	}
	c := serve(t, hang)
	defer close(release)
	c.opt.Timeout = 20 * time.Millisecond
	if s := c.Do(context.Background(), request(false), time.Now()); s.Error != ErrTimeout {
		t.Errorf("error %q, want %q", s.Error, ErrTimeout)
	}
	c.opt.Timeout = time.Minute
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if s := c.Do(ctx, request(false), time.Now()); s.Error != ErrCanceled {
		t.Errorf("error %q, want %q", s.Error, ErrCanceled)
	}
}

// TestLeave checks that the server sees the client leave at the planned point, and not later.
func TestLeave(t *testing.T) {
	const pieces = 50
	for _, tc := range []struct {
		at       LeavePoint
		wantBody bool // the server gets the complete body
	}{
		{MidUpload, false},
		{BeforeFirstByte, true},
		{AfterHeaders, true},
		{MidStream, true},
	} {
		t.Run(string(tc.at), func(t *testing.T) {
			gone := make(chan error, 1)
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				if (err == nil) != tc.wantBody {
					t.Errorf("body read with %v, want it complete: %v", err, tc.wantBody)
				}
				if err == nil && tc.at != BeforeFirstByte {
					w.WriteHeader(200)
					_, _ = io.WriteString(w, chunk+chunk)
					_ = http.NewResponseController(w).Flush()
				}
				select {
				case <-r.Context().Done():
					gone <- nil
				case <-time.After(4 * time.Minute):
					gone <- errors.New("the client never left")
				}
			})
			q := request(true)
			q.Body = make([]byte, 64<<10)
			q.Upload.Pieces = pieces
			q.Leave = Leave{At: tc.at, After: 5 * time.Millisecond, Events: 2}
			s := c.Do(context.Background(), q, time.Now())
			if !s.Left || s.Error != "" || s.OK() {
				t.Errorf("sample left %v, error %q, ok %v", s.Left, s.Error, s.OK())
			}
			if tc.at == MidStream && s.Tokens != 2 {
				t.Errorf("left after %d events, want 2", s.Tokens)
			}
			if err := <-gone; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUploadForms(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"0123456789"}]}`)
	for _, tc := range []struct {
		name   string
		upload Upload
		length int64
	}{
		{"whole", Upload{}, int64(len(body))},
		{"pieces", Upload{Pieces: 7, Pause: time.Millisecond}, int64(len(body))},
		{"chunked", Upload{Chunked: true}, -1},
		{"chunked pieces", Upload{Chunked: true, Pieces: 3}, -1},
		{"more pieces than bytes", Upload{Pieces: 1000}, int64(len(body))},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got, err := io.ReadAll(r.Body)
				if err != nil || string(got) != string(body) || r.ContentLength != tc.length {
					t.Errorf("got %d bytes (Content-Length %d, %v), want %d (%d)", len(got), r.ContentLength, err,
						len(body), tc.length)
				}
				_, _ = io.WriteString(w, `{"choices":[{}]}`)
			})
			q := &Request{Body: body, Upload: tc.upload}
			if s := c.Do(context.Background(), q, time.Now()); !s.OK() {
				t.Errorf("sample %+v", s)
			}
		})
	}
}

// TestOpenLoopDoesNotWait checks that a stuck server does not delay later requests: all arrive while the first is held.
func TestOpenLoopDoesNotWait(t *testing.T) {
	const n = 20
	var arrived atomic.Int32
	all := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if arrived.Add(1) == n {
			close(all)
		}
		<-all
		_, _ = io.WriteString(w, `{"choices":[{}]}`)
	})
	reqs, err := Workload{Count: n, Rate: 1000, Arrivals: Constant, Prompt: Fixed(5), Output: Fixed(1)}.Requests()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	c.opt.Seen = func(Sample) { seen++ }
	samples := c.OpenLoop(context.Background(), reqs)
	if seen != n {
		t.Errorf("Seen saw %d samples, want %d", seen, n)
	}
	// The first request was held until the last was due: counted from the due time, none of that wait may be lost.
	if lastDue := reqs[n-1].Due; samples[0].Total < lastDue {
		t.Errorf("the first request took %v, less than the %v it was held", samples[0].Total, lastDue)
	}
	for i, s := range samples {
		if !s.OK() || s.ID != i || s.Due != reqs[i].Due || s.Sent < s.Due {
			t.Errorf("sample %d: %+v", i, s)
		}
	}
}

func TestCancelledRunReportsWhatWasNotSent(t *testing.T) {
	c := serve(t, streamed(`{"choices":[{}]}`))
	reqs := make([]Request, 4)
	for i := range reqs {
		reqs[i] = Request{ID: i, Due: time.Hour * time.Duration(i)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for _, s := range c.OpenLoop(ctx, reqs)[1:] {
		if s.Error != ErrNotSent {
			t.Errorf("sample %d has error %q, want %q", s.ID, s.Error, ErrNotSent)
		}
	}
}

func ExampleClient_OpenLoop() {
	srv := httptest.NewServer(streamed(chunk, "data: [DONE]\n\n"))
	defer srv.Close()
	reqs, _ := Workload{
		Seed: 1, Count: 10, Rate: 500, Stream: true,
		Prompt: LogNormal{Median: 200, Sigma: 1, Max: 4000}, Output: LogNormal{Median: 20, Sigma: 1, Max: 500},
	}.Requests()
	samples := NewClient(Options{URL: srv.URL}).OpenLoop(context.Background(), reqs)
	sum := Summarize(samples)
	fmt.Println(sum.Requests, "requests,", sum.Failed(), "failed, served by", sum.Endpoints)
	// Output: 10 requests, 0 failed, served by map[e3:10]
}

// TestFrom has the server see where connections come from.
func TestFrom(t *testing.T) {
	var from atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		from.Store(host)
	}))
	defer srv.Close()
	for _, ip := range []string{"127.0.0.3", "127.0.0.2", ""} {
		c := NewClient(Options{URL: srv.URL, From: ip, Fresh: true})
		c.Do(context.Background(), request(false), time.Now())
		c.Close()
		if want := cmp.Or(ip, "127.0.0.1"); from.Load() != want {
			t.Errorf("from %q: the server saw %v", ip, from.Load())
		}
	}
}

func TestParseAnswerOfMessages(t *testing.T) {
	u, ok := parseAnswer([]byte(`{"type":"message","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":9,"output_tokens":2}}`))
	if !ok || u != (Usage{Prompt: 9, Completion: 2}) {
		t.Errorf("read %+v, %v", u, ok)
	}
	if _, ok := parseAnswer([]byte(`{"type":"message","content":[]}`)); ok {
		t.Error("an answer without content is complete")
	}
}
