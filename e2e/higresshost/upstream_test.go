package higresshost

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/fakehost"
)

func TestNativeBalancing(t *testing.T) {
	g := start(t, Options{})
	g.Cluster("llm").Add(host3)
	g.Cluster("llm").Endpoint(host2).Health = fakehost.Unhealthy
	var got []string
	for range 4 {
		got = append(got, script(g, "").Upstream())
	}
	if want := host1 + host3 + host1 + host3; strings.Join(got, "") != want {
		t.Errorf("picked %v: want round robin over the healthy ones", got)
	}
}

func TestOverride(t *testing.T) {
	for _, c := range []struct {
		name     string
		profile  Profile
		change   func(c *fakehost.Cluster)
		upstream string
		code     int
	}{
		{"usable", Higress22, func(*fakehost.Cluster) {}, host2, 0},
		{"usable, 2.1", Higress21, func(*fakehost.Cluster) {}, host2, 0},
		{"degraded", Higress22, func(c *fakehost.Cluster) { c.Endpoint(host2).Health = fakehost.Degraded }, host2, 0},
		{"unhealthy, strict", Higress22, func(c *fakehost.Cluster) {
			c.Endpoint(host2).Health = fakehost.Unhealthy
		}, "", 503},
		{"unhealthy, 2.1", Higress21, func(c *fakehost.Cluster) {
			c.Endpoint(host2).Health = fakehost.Unhealthy
		}, host1, 0},
		{"gone, strict", Higress22, func(c *fakehost.Cluster) { c.Remove(host2) }, "", 503},
		{"gone, 2.1", Higress21, func(c *fakehost.Cluster) { c.Remove(host2) }, host1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Options{Profile: c.profile})
			c.change(g.Cluster("llm"))
			s := script(g, "headers: stop; body: buffer; end: override "+host2)
			if s.Upstream() != c.upstream || s.Code != c.code || s.Override != host2 {
				t.Fatalf("upstream %q, code %d, override %q", s.Upstream(), s.Code, s.Override)
			}
			if c.code != 0 {
				if s.Details != "no_healthy_upstream" || s.Flags != fakehost.FlagNoHealthyUpstream || !s.Local {
					t.Errorf("details %s, flags %#x", s.Details, s.Flags)
				}
				onceEach(t, s)
			}
		})
	}
}

func TestOverrideTooLate(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "body: override "+host2)
	if s.Upstream() != host1 {
		t.Errorf("upstream %s", s.Upstream())
	}
	if v := g.TakeViolations(); len(v) != 2 || !strings.Contains(v[0], "after the router has chosen "+host1) {
		t.Errorf("violations %q", v)
	}
}

func TestRetryIgnoresOverride(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: override "+host2+"; response: prop upstream.address, prop upstream.request_attempt_count")
	s.Retry()
	if s.Upstream() != host1 || s.Attempts != 2 {
		t.Fatalf("upstream %s after %d attempts: want the native choice", s.Upstream(), s.Attempts)
	}
	if a, b := g.Cluster("llm").Endpoint(host1).Active(), g.Cluster("llm").Endpoint(host2).Active(); a != 1 || b != 0 {
		t.Fatalf("active %d and %d", a, b)
	}
	s.Respond(200, "ok")
	if !g.LogContains(`prop: "` + host1 + `"`) {
		t.Error("the response phase must see the endpoint that served")
	}
	if got := last(t, g, "prop"); got != `"\x02\x00\x00\x00\x00\x00\x00\x00"` {
		t.Errorf("attempts as property: %s", got)
	}
	onceEach(t, s)
}

func TestRetryWithoutHealthyEndpoint(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "")
	for _, e := range g.Cluster("llm").Endpoints() {
		e.Health = fakehost.Unhealthy
	}
	s.Retry()
	if s.Code != 503 || s.Upstream() != "" {
		t.Errorf("code %d, upstream %q", s.Code, s.Upstream())
	}
	onceEach(t, s)
}

// All the ways in which a request never reaches a model server: the plugin sees the reply and the end, once.
func TestNeverReachesUpstream(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(g *Gateway)
		script  string
		cluster string
		code    int
		details string
	}{
		{"no healthy endpoint", func(g *Gateway) {
			for _, e := range g.Cluster("llm").Endpoints() {
				e.Health = fakehost.Unhealthy
			}
		}, "", "llm", 503, "no_healthy_upstream"},
		{"unknown cluster", func(*Gateway) {}, "", "nowhere", 503, "cluster_not_found"},
		{
			"connection refused", func(g *Gateway) { g.Cluster("llm").Endpoint(host1).Refuses = true }, "", "llm", 503,
			"upstream_reset_before_response_started{connection_failure}",
		},
		{"a later filter answers", func(g *Gateway) {
			g.OnRoute = func(*Stream) int { return 429 }
		}, "", "llm", 429, "later_filter"},
		{"the plugin answers", func(*Gateway) {}, "headers: local 429", "llm", 429, "by_guest"},
		{
			"the plugin answers in the body", func(*Gateway) {}, "headers: stop; body: buffer; end: local 429, stop",
			"llm", 429, "by_guest",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Options{})
			c.prepare(g)
			s := g.Worker(0).NewStream().To("r2", c.cluster)
			s.Send("POST", "/", "{}", "x-script", c.script)
			if s.Code != c.code || s.Details != c.details || !s.Local || !s.Received.End {
				t.Fatalf("code %d %s, received %+v", s.Code, s.Details, s.Received)
			}
			if !g.LogContains("response ") {
				t.Error("the plugin's response callback must see a local reply")
			}
			onceEach(t, s)
			if n := g.Cluster("llm").Endpoint(host1).Total(); n != 0 {
				t.Errorf("%d requests reached the endpoint", n)
			}
		})
	}
}

func TestLocalReplyCarriesWhatThePluginGave(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: local 503")
	r := s.Received
	if string(r.Body) != "no" || r.Headers.Get("x-guest") != "1" || r.Headers.Get(":status") != "503" {
		t.Errorf("received %+v", r)
	}
	wantLog(t, g, "headers 8 false", "local:", "response 4 false", "response_body 2 true", "done 0 true")
}

func TestResets(t *testing.T) {
	for _, c := range []struct {
		name   string
		script string
		do     func(s *Stream)
		code   int
		cut    bool
		detail string
	}{
		{
			"client while paused", "headers: stop; body: buffer; end: stop, park", (*Stream).ResetByClient, 0, true,
			"downstream_remote_disconnect",
		},
		{"client while upstream works", "", (*Stream).ResetByClient, 0, true, "downstream_remote_disconnect"},
		{"client in the response", "", func(s *Stream) {
			s.ResponseHeaders(fakehost.H(":status", "200"), false)
			s.ResetByClient()
		}, 200, true, "downstream_remote_disconnect"},
		{
			"upstream before the response", "", (*Stream).ResetByUpstream, 503, false,
			"upstream_reset_before_response_started{remote_reset}",
		},
		{"upstream in the response", "", func(s *Stream) {
			s.ResponseHeaders(fakehost.H(":status", "200"), false)
			s.ResponseBody([]byte("data"), false)
			s.ResetByUpstream()
		}, 200, true, "upstream_reset_after_response_started{remote_reset}"},
		{
			"idle while paused", "headers: stop; body: buffer; end: stop", (*Stream).IdleTimeout, 504, false,
			"stream_idle_timeout",
		},
		{"idle in the response", "", func(s *Stream) {
			s.ResponseHeaders(fakehost.H(":status", "200"), false)
			s.IdleTimeout()
		}, 200, true, "stream_idle_timeout"},
		{"plugin answers in the response", "response: local 500", func(s *Stream) {
			s.ResponseHeaders(fakehost.H(":status", "200"), false)
		}, 500, false, "by_guest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := start(t, Options{})
			s := script(g, c.script)
			c.do(s)
			if s.Code != c.code || s.Cut != c.cut || s.Details != c.detail {
				t.Errorf("code %d, cut %v, details %s", s.Code, s.Cut, s.Details)
			}
			onceEach(t, s)
			if n := g.Cluster("llm").Endpoint(host1).Active(); n != 0 {
				t.Errorf("%d requests left on the endpoint", n)
			}
			if n := len(g.Worker(0).Streams()); n != 0 {
				t.Errorf("%d streams left", n)
			}
		})
	}
}

func TestResetBeforeAnythingWasSent(t *testing.T) {
	g := start(t, Options{})
	s := g.Worker(0).NewStream()
	s.ResetByClient()
	if s.Callbacks.Log != 0 || s.ID() != 0 {
		t.Error("the plugin never knew this stream")
	}
}

func TestProperties(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"route_name", `"route"`},
		{"cluster_name", `"llm"`},
		{"xds.cluster_name", `"llm"`},
		{"request.path", `"/v1/chat/completions"`},
		{"request.method", `"POST"`},
		{"request.host", `"llm.example"`},
		{"request.headers.content-type", `"application/json"`},
		{"x_request_id", `"00000000-0000-4000-8000-000000000001"`},
		{"response.code", `"" (error status returned by host: not found)`},
		{"upstream.address", `"" (error status returned by host: not found)`},
		{"nonsense", `"" (error status returned by host: not found)`},
	} {
		g := start(t, Options{})
		script(g, "headers: prop "+c.path)
		if got := last(t, g, "prop"); got != c.want {
			t.Errorf("%s = %s, want %s", c.path, got, c.want)
		}
	}
}

func TestPropertiesOfStockEnvoy(t *testing.T) {
	g := start(t, Options{Profile: StockEnvoy, Wasm: guest(t, "envoy")})
	s := script(g, "headers: prop cluster_name; response: prop cluster_name; done: prop response.code_details")
	if got := last(t, g, "prop"); !strings.Contains(got, "not found") {
		t.Errorf("cluster_name before routing: %s", got)
	}
	s.ResponseHeaders(fakehost.H(":status", "200"), false)
	if got := last(t, g, "prop"); got != `"llm"` {
		t.Errorf("cluster_name in the response: %s", got)
	}
	s.ResetByClient()
	if got := last(t, g, "prop"); got != `"downstream_remote_disconnect"` {
		t.Errorf("details at the end: %s", got)
	}
}

func TestFilterState(t *testing.T) {
	g := start(t, Options{})
	s := script(g, "headers: setprop warmgate host=1, prop warmgate")
	if s.FilterState["warmgate"] != "host=1" || last(t, g, "prop") != `"host=1"` {
		t.Errorf("filter state %v", s.FilterState)
	}
}
