package streamtest_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strconv"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/streamtest"
)

// Over HTTP/3 a request is counted until it ends, whatever ends it, as it is over other protocols: Envoy deletes the
// stream's context in the plugin first, and logs the request once the client has acknowledged the response.
func TestEnvoyHTTP3(t *testing.T) {
	harness.LongT(t)
	for _, version := range []string{harness.DefaultVersion, harness.OldestVersion} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			certificate, key, pool := newCertificate(t)
			d := newEnvoy(t, harness.StartT(t, harness.Options{
				Version: version, Edit: withHTTP3(certificate, key), Config: envoyBase, Module: artifactCopy(t),
			}))
			addr, err := d.gw.Listener(t.Context(), http3Listener)
			if err != nil {
				t.Fatal(err)
			}
			d.SetEndpoints(make([]streamtest.Endpoint, 1))
			c := &http3Client{t: t, driver: d, addr: addr, tls: &tls.Config{
				RootCAs: pool, NextProtos: []string{"h3"}, ClientSessionCache: tls.NewLRUClientSessionCache(0),
			}}
			c.volley(t, `"unit":"tokens"`)
			c.volley(t, `"max_inflight":10`)
			if err := d.Configure(envoyBase); err != nil {
				t.Fatal(err)
			}
			for _, e := range http3Ends {
				t.Run(e.name, func(t *testing.T) {
					e.run(&http3Run{T: t, http3Client: c})
					c.wantDrained(t)
				})
			}
		})
	}
}

// volley sends 30 requests one after the other over HTTP/3, then as many over HTTP/1.1, with the members of lb_config.
func (c *http3Client) volley(t *testing.T, members string) {
	t.Run("30 requests, "+members, func(t *testing.T) {
		if err := c.driver.Configure(envoyHead + members + `,` + envoySource + `}}`); err != nil {
			t.Fatal(err)
		}
		_, over := c.dial(false)
		shed := map[string]int{}
		for range 30 {
			s := c.openOn(over, streamtest.Request{Frames: []string{`{"model":"m","prompt":"hello"}`}}.Filled())
			s.finishUnlessAnswered()
			s.count(t, "HTTP/3", shed)
		}
		for range 30 {
			s, _ := c.driver.Open(streamtest.Request{Frames: []string{"{}"}}).(*envoyStream)
			s.finishUnlessAnswered()
			s.count(t, "HTTP/1.1", shed)
		}
		if len(shed) > 0 {
			t.Errorf("refused with 429: %v", shed)
		}
		c.wantDrained(t)
	})
}

// finishUnlessAnswered has the model server answer, if the request gets there.
func (s *envoyStream) finishUnlessAnswered() {
	if s.Upstream() >= 0 {
		s.Finish()
	}
}

// count counts the request in shed if the gateway has refused it, and fails the test unless it was answered otherwise.
func (s *envoyStream) count(t *testing.T, protocol string, shed map[string]int) {
	t.Helper()
	switch r := s.Result(); {
	case r.Status == http.StatusTooManyRequests:
		shed[protocol]++
	case r.Status != http.StatusOK || r.Cut:
		t.Errorf("%s: the client got %d, cut %v", protocol, r.Status, r.Cut)
	}
}

// wantDrained fails the test unless a request over HTTP/1.1 comes to find nothing else in flight.
func (c *http3Client) wantDrained(t *testing.T) {
	t.Helper()
	load := ""
	if !c.driver.Await(func() bool {
		resp, err := http.Get(c.driver.gw.URL() + "/probe")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		load = resp.Header.Get("x-warmgate-load")
		return load == "1"
	}) {
		n, _ := strconv.Atoi(load)
		t.Errorf("%d requests that have ended are counted in flight", n-1)
	}
}

// http3Run is one way in which a request over HTTP/3 ends.
type http3Run struct {
	*testing.T
	*http3Client
}

// arrived opens a request and waits until it is at its model server.
func (t *http3Run) arrived(r streamtest.Request) *http3Stream {
	t.Helper()
	s := t.open(r)
	if s.Upstream() < 0 {
		t.Fatalf("the request reached no endpoint: %+v", s.Result())
	}
	return s
}

// want fails the test unless the client got that status, and the response was broken off or not.
func (t *http3Run) want(s *http3Stream, status int, cut bool) {
	t.Helper()
	if r := s.Result(); r.Status != status || r.Cut != cut {
		t.Errorf("the client got %d, cut %v; want %d, %v", r.Status, r.Cut, status, cut)
	}
}

var (
	prompted = streamtest.Request{Frames: []string{`{"model":"m",`, `"prompt":"hello"}`}}
	unended  = streamtest.Request{Frames: []string{`{"model":`}, Unended: true, NoRetry: true}
)

var http3Ends = []struct {
	name string
	run  func(t *http3Run)
}{
	{"completed", func(t *http3Run) {
		s := t.arrived(prompted)
		s.Head(200)
		s.Data("a")
		s.Data("b")
		s.Finish()
		t.want(s, 200, false)
	}},
	{"without bodies", func(t *http3Run) {
		s := t.arrived(streamtest.Request{})
		s.Head(204)
		s.Finish()
		t.want(s, 204, false)
	}},
	{"with trailers", func(t *http3Run) {
		r := prompted
		r.Trailers = [][2]string{{"x-end", "client"}}
		s := t.arrived(r)
		s.Head(200, [2]string{"Trailer", "X-End"})
		s.Data("a")
		s.at.give(func(a *answering) bool { a.w.Header().Set("X-End", "server"); return true })
		t.want(s, 200, false)
		if got := s.Result().Headers["trailer x-end"]; got != "server" {
			t.Errorf("the response's trailer is %q", got)
		}
		if got := s.Received().Trailers["x-end"]; got != "client" {
			t.Errorf("the request's trailer is %q", got)
		}
	}},
	{"upstream answers 500", func(t *http3Run) {
		s := t.arrived(prompted)
		s.Head(500)
		s.Finish()
		t.want(s, 500, false)
	}},
	{"answered before the request ends", func(t *http3Run) {
		s := t.arrived(unended)
		s.Head(200, [2]string{"Content-Length", "1"})
		s.Data("a")
		t.want(s, 200, false)
	}},
	{"client resets before the response", func(t *http3Run) { t.arrived(prompted).ResetByClient() }},
	{"client resets before its body ends", func(t *http3Run) { t.arrived(unended).ResetByClient() }},
	{"client resets in the middle of the response", func(t *http3Run) {
		s := t.arrived(prompted)
		s.Head(200)
		s.Data("a")
		s.ResetByClient()
	}},
	{"upstream resets before the response", func(t *http3Run) {
		r := prompted
		r.NoRetry = true
		s := t.arrived(r)
		s.ResetByUpstream()
		t.want(s, 503, false)
	}},
	{"upstream resets in the middle of the response", func(t *http3Run) {
		s := t.arrived(prompted)
		s.Head(200)
		s.Data("a")
		s.ResetByUpstream()
		if !s.Result().Cut { // the reset may overtake the response's headers
			t.Error("the response is not broken off")
		}
	}},
	{"connection closed before the response", func(t *http3Run) { t.arrived(prompted).closeConnection() }},
	{"connection closed in the middle of the response", func(t *http3Run) {
		s := t.arrived(prompted)
		s.Head(200)
		s.Data("a")
		s.closeConnection()
	}},
	{"0-RTT", func(t *http3Run) {
		if !t.driver.Await(func() bool { // the gateway may refuse early data
			conn, over := t.dial(true)
			s := t.openOn(over, streamtest.Request{Method: http3.MethodGet0RTT, Path: "/v1/models"}.Filled())
			s.finishUnlessAnswered()
			return s.Result().Status == 200 && conn.ConnectionState().Used0RTT
		}) {
			t.Error("no request came with the first packet")
		}
	}},
}
