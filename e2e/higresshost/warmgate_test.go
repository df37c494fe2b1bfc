package higresshost_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/fakehost"
	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
)

const (
	leastRequest = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"debug_headers":true}}`
	byTokens     = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"tokens"}}`
	chat         = `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"hello"}]}`
	completions  = "/v1/chat/completions"
)

var addrs = []string{"10.0.0.1:8000", "10.0.0.2:8000", "10.0.0.3:8000"}

// warmgate runs the shipped plugin over three endpoints.
func warmgate(tb testing.TB, opts higresshost.Options) *higresshost.Gateway {
	tb.Helper()
	opts.Wasm = harness.ModuleT(tb, harness.HostHigress)
	if opts.Config == "" {
		opts.Config = leastRequest
	}
	gw := higresshost.Start(tb, opts)
	for _, a := range addrs {
		gw.Cluster("llm").Add(a)
	}
	return gw
}

// audit lets every VM send a heartbeat and compares what the plugin counts with what the model servers have.
func audit(tb testing.TB, gw *higresshost.Gateway) {
	tb.Helper()
	gw.Advance(1200 * time.Millisecond)
	for _, e := range gw.Cluster("llm").Endpoints() {
		counted := gw.Metrics().Gauge("warmgate_inflight_requests;cluster=llm;endpoint=" + e.Addr)
		if counted != int64(e.Active()) {
			tb.Errorf("%s: %d counted, %d in flight", e.Addr, counted, e.Active())
		}
	}
}

func decisions(gw *higresshost.Gateway, reason string) uint64 {
	return gw.Metrics().Counter("warmgate_decisions_total;policy=global_least_request;reason=" + reason)
}

func post(w *higresshost.Worker) *higresshost.Stream { return w.Request("POST", completions, chat) }

// One file cannot serve both hosts: Higress must not see ABI 0.2.1, stock Envoy must see it and no Higress import.
func TestArtifactsLoadWhereTheyBelong(t *testing.T) {
	for host, want := range map[string][]string{
		"higress": {"proxy_abi_version_0_2_100"},
		"envoy":   {"proxy_abi_version_0_2_1", "proxy_abi_version_0_2_100"},
	} {
		names, err := higresshost.ModuleExports(harness.ModuleT(t, harness.Host(host)))
		if err != nil {
			t.Fatal(err)
		}
		var versions []string
		for _, n := range names {
			if strings.HasPrefix(n, "proxy_abi_version") {
				versions = append(versions, n)
			}
		}
		if strings.Join(versions, " ") != strings.Join(want, " ") {
			t.Errorf("%s: exports %v, want %v in this order", host, versions, want)
		}
	}
	if _, err := higresshost.New(higresshost.Options{
		Wasm:    harness.ModuleT(t, harness.HostHigress),
		Profile: higresshost.StockEnvoy,
	}); err == nil {
		t.Error("stock Envoy took the Higress artifact")
	}
	gw, err := higresshost.New(higresshost.Options{
		Wasm: harness.ModuleT(t, harness.HostEnvoy), Profile: higresshost.StockEnvoy, AllowStopIteration: true,
		Config: `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"envoy":{"admin_cluster":"admin"}}}`,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := gw.Close(); err != nil {
		t.Error(err)
	}
}

func TestLeastLoadedOverAllWorkers(t *testing.T) {
	for _, p := range []higresshost.Profile{higresshost.Higress22, higresshost.Higress21} {
		t.Run(p.String(), func(t *testing.T) {
			gw := warmgate(t, higresshost.Options{Workers: 3, Profile: p})
			var open []*higresshost.Stream
			for i := range 12 {
				open = append(open, post(gw.Worker(i%3)))
			}
			for _, e := range gw.Cluster("llm").Endpoints() {
				if e.Active() != 4 {
					t.Errorf("%s has %d of 12 requests, want 4", e.Addr, e.Active())
				}
			}
			audit(t, gw)
			free := open[5].Upstream()
			open[5].Respond(200, "{}")
			if s := post(gw.Worker(0)); s.Upstream() != free {
				t.Errorf("went to %s, want %s, which has one less", s.Upstream(), free)
			}
			if n := decisions(gw, "chosen"); n != 13 {
				t.Errorf("%d decisions, want 13", n)
			}
		})
	}
}

// Every end of a stream gives its lease back.
func TestReleaseAtEveryEnd(t *testing.T) {
	ends := map[string]func(gw *higresshost.Gateway, s *higresshost.Stream){
		"completed":     func(_ *higresshost.Gateway, s *higresshost.Stream) { s.Respond(200, "{}") },
		"headers only":  func(_ *higresshost.Gateway, s *higresshost.Stream) { s.Respond(204, "") },
		"server error":  func(_ *higresshost.Gateway, s *higresshost.Stream) { s.Respond(500, "{}") },
		"client leaves": func(_ *higresshost.Gateway, s *higresshost.Stream) { s.ResetByClient() },
		"server breaks": func(_ *higresshost.Gateway, s *higresshost.Stream) { s.ResetByUpstream() },
		"idle":          func(_ *higresshost.Gateway, s *higresshost.Stream) { s.IdleTimeout() },
		"retried elsewhere": func(_ *higresshost.Gateway, s *higresshost.Stream) {
			s.Retry()
			s.Respond(200, "{}")
		},
		"client leaves in stream": func(_ *higresshost.Gateway, s *higresshost.Stream) { begin(s); s.ResetByClient() },
		"server breaks in stream": func(_ *higresshost.Gateway, s *higresshost.Stream) {
			begin(s)
			s.ResetByUpstream()
		},
		"ends with trailers": func(_ *higresshost.Gateway, s *higresshost.Stream) {
			begin(s)
			s.ResponseTrailers(fakehost.H("t", "1"))
		},
		"gateway shuts down": func(gw *higresshost.Gateway, _ *higresshost.Stream) { gw.Shutdown() },
		"configuration is replaced": func(gw *higresshost.Gateway, s *higresshost.Stream) {
			push(gw, byTokens)
			s.Respond(200, "{}")
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			gw := warmgate(t, higresshost.Options{Workers: 2})
			other := post(gw.Worker(1))
			s := post(gw.Worker(0))
			if s.Upstream() == other.Upstream() {
				t.Fatalf("both on %s", s.Upstream())
			}
			end(gw, s)
			if !s.Ended || s.Callbacks.Log != 1 {
				t.Fatalf("ended %v, logged %d times", s.Ended, s.Callbacks.Log)
			}
			if name != "gateway shuts down" {
				audit(t, gw)
				other.Respond(200, "{}")
			}
			if name != "gateway shuts down" {
				audit(t, gw)
			}
		})
	}
}

func begin(s *higresshost.Stream) {
	s.ResponseHeaders(fakehost.H(":status", "200", "content-type", "text/event-stream"), false)
	s.ResponseBody([]byte("data: {}\n\n"), false)
}

func push(gw *higresshost.Gateway, config string) {
	if err := gw.PushConfig(config); err != nil {
		panic(err)
	}
}

// A request that never gets to a model server is counted nowhere afterwards.
func TestNeverReachedUpstream(t *testing.T) {
	for name, prepare := range map[string]func(gw *higresshost.Gateway){
		"a later filter answers": func(gw *higresshost.Gateway) {
			gw.OnRoute = func(*higresshost.Stream) int { return 429 }
		},
		"connection refused": func(gw *higresshost.Gateway) {
			for _, e := range gw.Cluster("llm").Endpoints() {
				e.Refuses = true
			}
		},
		"chosen host leaves before the router picks": func(gw *higresshost.Gateway) {
			gw.OnRoute = func(s *higresshost.Stream) int {
				gw.Cluster("llm").Endpoint(s.Override).Health = fakehost.Unhealthy
				return 0
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			gw := warmgate(t, higresshost.Options{})
			prepare(gw)
			s := post(gw.Worker(0))
			if !s.Local || !s.Ended {
				t.Fatalf("code %d from %q", s.Code, s.Upstream())
			}
			audit(t, gw)
		})
	}
}

// With tokens as the unit the body is held until it is read; a client that leaves then leaves nothing counted.
func TestTokensHoldTheBody(t *testing.T) {
	gw := warmgate(t, higresshost.Options{Config: byTokens})
	s := gw.Worker(0).NewStream()
	s.RequestHeaders(fakehost.H(":method", "POST", ":path", completions, ":authority", "a"), false)
	s.RequestBody([]byte(chat[:20]), false)
	if !s.Paused() {
		t.Fatal("went on before the body was there")
	}
	left := gw.Worker(0).NewStream()
	left.RequestHeaders(fakehost.H(":method", "POST", ":path", completions, ":authority", "a"), false)
	left.ResetByClient()
	s.RequestBody([]byte(chat[20:]), false)
	s.RequestBody(nil, true)
	if !s.OnUpstream || string(s.Sent.Body) != chat {
		t.Fatalf("sent %q to %q", s.Sent.Body, s.Upstream())
	}
	gw.Advance(1200 * time.Millisecond)
	tokens := gw.Metrics().Gauge("warmgate_inflight_tokens;cluster=llm;endpoint=" + s.Upstream())
	if tokens < 100 {
		t.Errorf("%d tokens in flight, want 100 of output and some of prompt", tokens)
	}
	s.Respond(200, "{}")
	audit(t, gw)
}

// A body that never comes must not hang: native balancing after the deadline, and one release.
func TestBodyThatNeverComes(t *testing.T) {
	gw := warmgate(t, higresshost.Options{Config: byTokens})
	s := gw.Worker(0).NewStream()
	s.RequestHeaders(fakehost.H(":method", "POST", ":path", completions, ":authority", "a"), false)
	gw.Advance(time.Minute)
	if s.Paused() || s.Upstream() == "" {
		t.Fatal("still held after a minute")
	}
	if n := decisions(gw, "body_late"); n != 1 {
		t.Errorf("%d decisions body_late: %v", n, gw.Metrics().Names())
	}
	s.ResetByClient()
	audit(t, gw)
}

// Two workers decide at the same moment: one loses the swap, sees the other's reservation and goes elsewhere.
func TestRacingWorkers(t *testing.T) {
	gw := warmgate(t, higresshost.Options{Workers: 2})
	post(gw.Worker(0)).Respond(200, "{}") // both VMs know the cluster
	post(gw.Worker(1)).Respond(200, "{}")
	var raced *higresshost.Stream
	gw.OnHostCall = func(w *higresshost.Worker, call string) {
		if call == "set_shared_data" && w == gw.Worker(0) {
			gw.OnHostCall = nil
			raced = post(gw.Worker(1))
		}
	}
	s := post(gw.Worker(0))
	if raced == nil || s.Upstream() == raced.Upstream() {
		t.Fatalf("both went to %s", s.Upstream())
	}
	audit(t, gw)
}

// The leases of a VM that died are given back when its owner has been silent for the time to live.
func TestDeadWorker(t *testing.T) {
	gw := warmgate(t, higresshost.Options{Workers: 2})
	for range 3 {
		post(gw.Worker(0))
	}
	alive := post(gw.Worker(1))
	gw.Worker(0).Trap()
	gw.Advance(7 * time.Second)
	audit(t, gw)
	if n := gw.Metrics().Counter("warmgate_owners_returned_total"); n == 0 {
		t.Error("no owner was returned")
	}
	if s := post(gw.Worker(0)); s.Upstream() == "" || s.Upstream() == alive.Upstream() {
		t.Errorf("the recovered worker chose %q", s.Upstream())
	}
}

// Policy changes while requests are open keep the counts.
func TestPushesKeepCounts(t *testing.T) {
	gw := warmgate(t, higresshost.Options{Workers: 2})
	var open []*higresshost.Stream
	for i, config := range []string{byTokens, `{"enabled":false}`, leastRequest, byTokens} {
		open = append(open, post(gw.Worker(i%2)))
		push(gw, config)
	}
	if err := gw.PushConfig(`{"lb_policy":"nonsense"}`); err == nil {
		t.Error("a bad configuration was taken")
	}
	gw.Advance(1200 * time.Millisecond)
	for _, s := range open {
		s.Respond(200, "{}")
	}
	audit(t, gw)
	if n := gw.Worker(0).Contexts(); n != 1 {
		t.Errorf("%d plugin contexts left", n)
	}
}

// The debug headers and the access log of one decision.
func TestDecisionIsVisible(t *testing.T) {
	gw := warmgate(t, higresshost.Options{})
	s := post(gw.Worker(0))
	s.Respond(200, "{}")
	h := s.Received.Headers
	if h.Get("x-warmgate-host") != s.Upstream() || h.Get("x-warmgate-reason") != "chosen" ||
		h.Get("x-warmgate-load") != "1" {
		t.Errorf("debug headers: %v", h)
	}
	want := "host=" + s.Upstream() + " reason=chosen load=1 policy=global_least_request outcome=ok model=m "
	if !strings.HasPrefix(s.FilterState["warmgate"], want) {
		t.Errorf("access log %q, want %q", s.FilterState, want)
	}
	if s.RouteCleared() {
		t.Error("the plugin made the gateway choose the route again")
	}
}

// Over HTTP/2 the last frame carries data. Higress 2.1 does not show it to the plugin, but nothing may get lost by
// that.
func TestLastFrameWithData(t *testing.T) {
	for _, p := range []higresshost.Profile{higresshost.Higress22, higresshost.Higress21} {
		t.Run(p.String(), func(t *testing.T) {
			gw := warmgate(t, higresshost.Options{Config: byTokens, Profile: p})
			s := gw.Worker(0).NewStream()
			s.RequestHeaders(fakehost.H(":method", "POST", ":path", completions, ":authority", "a"), false)
			for i := 0; i < len(chat); i += 20 {
				s.RequestBody([]byte(chat[i:min(i+20, len(chat))]), i+20 >= len(chat))
			}
			if string(s.Sent.Body) != chat || !s.Sent.End || !s.OnUpstream {
				t.Fatalf("sent %q", s.Sent.Body)
			}
			if note := s.FilterState["warmgate"]; p == higresshost.Higress22 &&
				!strings.Contains(note, "reason=chosen") {
				t.Errorf("decided %s", note)
			}
			s.Respond(200, "{}")
			audit(t, gw)
		})
	}
}
