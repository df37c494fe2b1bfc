package higresshost

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

func TestPassThrough(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "")
	if s.Upstream() != host1 || !s.Sent.End || string(s.Sent.Body) != `{"a":1}` {
		t.Fatalf("upstream %q got %+v", s.Upstream(), s.Sent)
	}
	if n := g.Cluster("llm").Endpoint(host1).Active(); n != 1 {
		t.Fatalf("%d requests on the endpoint, want 1", n)
	}
	s.Respond(200, "ok")
	if r := s.Received; string(r.Body) != "ok" || !r.End || s.Code != 200 || s.Details != "via_upstream" {
		t.Fatalf("client got %+v, code %d, details %s", r, s.Code, s.Details)
	}
	onceEach(t, s)
	wantLog(t, g, "headers 8 false", "body 7 false", "body 0 true", "response 2 false", "response_body 2 true",
		"done 0 true")
	if e := g.Cluster("llm").Endpoint(host1); e.Active() != 0 || e.Total() != 1 || e.Peak() != 1 {
		t.Fatalf("endpoint after the stream: %+v", e)
	}
}

func TestHeadersOnly(t *testing.T) {
	g := start(t, Options{})
	s := g.Worker(0).Request("GET", "/v1/models", "")
	if !s.Sent.End || s.Upstream() == "" {
		t.Fatalf("sent %+v to %q", s.Sent, s.Upstream())
	}
	s.Respond(204, "")
	onceEach(t, s)
	wantLog(t, g, "headers 5 true", "response 2 true", "done 0 true")
}

// Which callbacks run while the headers are stopped, by ABI and answer.
func TestStopInHeaders(t *testing.T) {
	for _, c := range []struct {
		name, guest string
		opts        Options
		script      string
		bodyRuns    bool
	}{
		{"0.2.100 stop", "higress", Options{}, "headers: stop; body: buffer", true},
		{"0.2.100 stop all", "higress", Options{}, "headers: stopall", false},
		{"0.2.1 stop", "envoy", Options{Profile: StockEnvoy}, "headers: stop", false},
		{
			"0.2.1 stop, allowed", "envoy",
			Options{Profile: StockEnvoy, AllowStopIteration: true},
			"headers: stop; body: buffer", true,
		},
		{"0.2.1 stop in Higress", "envoy", Options{}, "headers: stop", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.opts.Wasm = guest(t, c.guest)
			g := start(t, c.opts)
			s := script(g, c.script)
			if !s.Paused() || s.Upstream() != "" {
				t.Fatalf("paused %v, upstream %q: want it held", s.Paused(), s.Upstream())
			}
			if ran := g.LogContains("body 7 false"); ran != c.bodyRuns {
				t.Errorf("body callback ran: %v, want %v", ran, c.bodyRuns)
			}
			s.ResetByClient()
			onceEach(t, s)
		})
	}
}

// After a full stop the plugin's own body callback runs when the stream is continued.
func TestContinueAfterStopAllReplaysBody(t *testing.T) {
	g := start(t, Options{Config: "tick=50"})
	s := g.Worker(0).NewStream()
	s.RequestHeaders(fakehost.H(":method", "POST", "x-script", "headers: stopall, park"), false)
	s.RequestBody([]byte("abc"), false)
	s.RequestBody([]byte("de"), false)
	s.RequestTrailers(fakehost.H("t", "1"))
	g.Advance(50 * time.Millisecond)
	if string(s.Sent.Body) != "abcde" || s.Sent.Trailers.Get("t") != "1" || !s.Sent.End {
		t.Fatalf("sent %+v", s.Sent)
	}
	got := strings.Join(guestLog(g), "|")
	if want := "body 5 false tick=50|trailers 1 true tick=50"; !strings.Contains(got, want) {
		t.Errorf("the guest logged %s, want %s in it", got, want)
	}
}

func TestBufferGrows(t *testing.T) {
	for _, c := range []struct {
		profile Profile
		sizes   []string // of the callbacks, for frames abc, de and a last f
		seen    string
	}{
		{Higress22, []string{"body 3 false", "body 5 false", "end 6 true"}, "abcdef"},
		{Higress21, []string{"body 3 false", "body 3 false", "end 5 true"}, "abcde"},
	} {
		t.Run(c.profile.String(), func(t *testing.T) {
			g := start(t, Options{Profile: c.profile})
			s := g.Worker(0).NewStream()
			s.RequestHeaders(fakehost.H(":method", "POST", "x-script", "headers: stop; body: buffer; "+
				"end: body, override "+host2), false)
			for i, frame := range []string{"abc", "de", "f"} {
				s.RequestBody([]byte(frame), i == 2)
			}
			want := append([]string{"headers 2 false"}, c.sizes...)
			wantLog(t, g, append(want, "body: "+c.seen, "override:")...)
			if string(s.Sent.Body) != "abcdef" || s.Upstream() != host2 {
				t.Errorf("sent %q to %s", s.Sent.Body, s.Upstream())
			}
		})
	}
}

// A body whose end is an empty frame, as HTTP/1 sends it, is seen whole in every version.
func TestBufferWithEmptyLastFrame(t *testing.T) {
	for _, p := range []Profile{Higress22, Higress21} {
		g := start(t, Options{Profile: p})
		script(g, "headers: stop; body: buffer; end: body")
		if got := last(t, g, "body"); got != `{"a":1}` {
			t.Errorf("%s: seen %q", p, got)
		}
	}
}

func TestNoBufferDropsData(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: stop; body: nobuffer; end: nobuffer, park")
	if !s.Paused() {
		t.Fatal("not paused")
	}
	s.ResetByClient()
	if len(s.Sent.Body) != 0 {
		t.Errorf("sent %q", s.Sent.Body)
	}
}

func TestBufferLimit(t *testing.T) {
	body := strings.Repeat("x", 100)
	for _, c := range []struct {
		name, script string
		code         int
		backpressure bool
	}{
		{"buffer", "headers: stop; body: buffer", 413, false},
		{"raised by the plugin", "headers: stop, setprop set_decoder_buffer_limit 1000; body: buffer", 0, false},
		{"watermark", "headers: stop; body: watermark", 0, true},
		{"stop all", "headers: stopall", 0, true},
		{"streamed", "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Options{BufferLimit: 50})
			s := g.Worker(0).Request("POST", "/", body, "x-script", c.script)
			if s.Code != c.code || s.Backpressure() != c.backpressure {
				t.Fatalf("code %d, backpressure %v", s.Code, s.Backpressure())
			}
			if c.code != 0 {
				onceEach(t, s)
			}
		})
	}
}

// Resuming inside of the body callback and going on is what the real filter manager allows.
func TestResumeInOwnCallback(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: stop; body: buffer; end: resume")
	if !s.Sent.End || string(s.Sent.Body) != `{"a":1}` {
		t.Errorf("sent %+v", s.Sent)
	}
	s = script(g, "headers: resume")
	violated(t, g, "not paused")
	if !s.OnUpstream {
		t.Error("a resume of a running stream must change nothing")
	}
}

// After its continuation the guest cannot access what was passed on; at the end it may read it once more but not write.
func TestHeadersAreVisibleOnlyInTheirCallbacks(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: get :method; body: get :method, set a b; response: get_response :status; done: get "+
		":method, set a b")
	s.Respond(200, "ok")
	wantLog(t, g,
		"headers 8 false", "get: POST",
		"body 7 false", "get:  (error status returned by host: bad argument)", "set:  (error status returned by "+
			"host: bad argument)",
		"body 0 true", "get:  (error status returned by host: bad argument)", "set:  (error status returned by "+
			"host: bad argument)",
		"response 2 false", "get_response: 200", "response_body 2 true",
		"done 0 true", "get: POST", "set:  (error status returned by host: bad argument)")
}

func TestRouteIsClearedByHeaderWrites(t *testing.T) {
	g := start(t, Options{})
	if !script(g, "headers: set a b").RouteCleared() {
		t.Error("a header write clears the route cache")
	}
	if script(g, "headers: setprop clear_route_cache off, set a b").RouteCleared() {
		t.Error("the plugin has set the property that keeps the route")
	}
}

func TestResponsePaused(t *testing.T) {
	g := start(t, Options{Config: "tick=10"})
	s := script(g, "response: stop; response_body: buffer; response_end: response_body, resume_response")
	s.ResponseHeaders(fakehost.H(":status", "200"), false)
	s.ResponseBody([]byte("ab"), false)
	if !s.ResponsePaused() || s.Received.Headers != nil {
		t.Fatalf("received %+v", s.Received)
	}
	s.ResponseBody([]byte("c"), true)
	if string(s.Received.Body) != "abc" || last(t, g, "response_body") != "abc" {
		t.Errorf("received %+v", s.Received)
	}
	onceEach(t, s)
}

func TestMisuseOfTheDriverPanics(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "")
	s.Respond(200, "ok")
	for name, use := range map[string]func(){
		"after the end":             func() { s.RequestBody(nil, true) },
		"on no endpoint":            func() { g.Worker(0).NewStream().Respond(200, "") },
		"header list of odd length": func() { fakehost.H(append([]string{"a"}, "b", "c")...) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			use()
		}()
	}
}

// Whatever a guest answers and wherever it is resumed, bytes arrive in order and complete, unless it drops them.
func TestRandomFramesArriveWhole(t *testing.T) {
	g := start(t, Options{Config: "tick=10", BufferLimit: 1 << 20})
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		do := func(answers ...string) string { return answers[rnd.IntN(len(answers))] }
		text := "headers: " + do("stop", "stopall", "continue") + ", park" +
			"; body: " + do("buffer", "watermark", "continue") + ", park" +
			"; end: " + do("buffer", "watermark", "continue") + ", park" +
			"; trailers: " + do("stop", "continue") + ", park"
		s := g.Worker(0).NewStream()
		s.RequestHeaders(fakehost.H(":method", "POST", "x-script", text), false)
		var want []byte
		trailers := rnd.IntN(2) == 0
		for left := rnd.IntN(4); left >= 0; left-- {
			frame := []byte(strings.Repeat(string(rune('a'+left)), rnd.IntN(3)))
			want = append(want, frame...)
			s.RequestBody(frame, left == 0 && !trailers)
			if rnd.IntN(4) == 0 {
				g.Advance(10 * time.Millisecond)
			}
		}
		if trailers {
			s.RequestTrailers(fakehost.H("t", "1"))
		}
		for range 4 { // each callback may park again
			g.Advance(10 * time.Millisecond)
		}
		sent := s.Sent
		if string(sent.Body) != string(want) || !sent.End || sent.Trailers.Has("t") != trailers {
			t.Fatalf("%d: %s: sent %q, end %v, trailers %v; want %q, trailers %v",
				i, text, sent.Body, sent.End, sent.Trailers, want, trailers)
		}
		s.Respond(200, "ok")
		onceEach(t, s)
	}
	g.TakeViolations() // parked streams that run are woken too
}

func TestHeaderWrites(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: set A 1, remove content-type; response: set_response x-b 2")
	if h := s.Sent.Headers; h.Get("a") != "1" || h.Has("content-type") {
		t.Errorf("sent %v", h)
	}
	s.Respond(200, "ok")
	if h := s.Received.Headers; h.Get("x-b") != "2" {
		t.Errorf("received %v", h)
	}
}

func TestTrailers(t *testing.T) {
	g := start(t, Options{})
	s := g.Worker(0).NewStream()
	s.RequestHeaders(fakehost.H(":method", "POST", "x-script", "headers: stop; body: buffer; trailers: trailer t, "+
		"body, override "+host2), false)
	s.RequestBody([]byte("abc"), false)
	s.RequestTrailers(fakehost.H("t", "1"))
	wantLog(t, g, "headers 2 false", "body 3 false", "trailers 1 true", "trailer: 1", "body: abc", "override:")
	if s.Upstream() != host2 || s.Sent.Trailers.Get("t") != "1" {
		t.Errorf("sent %+v to %s", s.Sent, s.Upstream())
	}
	s.ResponseHeaders(fakehost.H(":status", "200"), false)
	s.ResponseTrailers(fakehost.H("grpc-status", "0"))
	if s.Received.Trailers.Get("grpc-status") != "0" {
		t.Errorf("received %+v", s.Received)
	}
	onceEach(t, s)
}

func TestLocalReplyWhileTheResponseIsHeld(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "response: stop")
	s.ResponseHeaders(fakehost.H(":status", "200"), false)
	s.IdleTimeout()
	if s.Code != 504 || s.Received.Headers.Get(":status") != "504" || s.Cut {
		t.Errorf("code %d, received %+v", s.Code, s.Received)
	}
	onceEach(t, s)
}
