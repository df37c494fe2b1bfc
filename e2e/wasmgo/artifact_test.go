package wasmgo

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/proxytest"
	"github.com/higress-group/proxy-wasm-go-sdk/proxywasm/types"
	wasmtest "github.com/higress-group/wasm-go/pkg/test"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/statname"
)

// The artifacts in wasm-go's host for tests. It has one VM and one plugin context, no time (each reading of the clock
// adds a millisecond) and the same properties for all requests. It offers Higress's calls for endpoints but answers
// them with nothing, so on Higress's artifact every request falls back to native balancing; the placing of requests is
// tested with that for stock Envoy, whose endpoints are in the configuration.

// run runs f with the artifact for a gateway in wasm-go's host, after it has started with a configuration.
func run(t *testing.T, gateway harness.Host, config string, f func(t *testing.T, host proxytest.HostEmulator)) {
	t.Helper()
	module, err := harness.Wasm(t.Context(), gateway)
	if err != nil {
		t.Fatal(err)
	}
	ran := false // the library skips what it cannot read
	wasmtest.RunWasmTestWithPath(t, module, func(t *testing.T) {
		ran = true
		// The host knows no properties with types: it takes them for text.
		host, status := wasmtest.NewTestHostWithForeignFuncs(json.RawMessage(config), map[string]func([]byte) []byte{
			"declare_property": func([]byte) []byte { return []byte{0} },
		})
		defer host.Reset()
		if status != types.OnPluginStartStatusOK {
			t.Fatalf("the plugin does not start: %q", host.GetErrorLogs())
		}
		f(t, host)
	})
	if !ran && !t.Failed() {
		t.Error("the artifact was not run")
	}
}

// stream is a request in the host.
type stream struct {
	t    *testing.T
	host proxytest.HostEmulator
	id   uint32
}

// start begins a request. Properties are those of all requests there, so each is set, the plugin's own included.
func start(t *testing.T, host proxytest.HostEmulator, properties map[string]string) stream {
	t.Helper()
	for _, name := range []string{"route_name", "cluster_name", "xds.route_name", "xds.cluster_name", "warmgate"} {
		value := properties[name]
		if value == "" {
			value = "-" // the host takes no empty one
		}
		if err := host.SetProperty(strings.Split(name, "."), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	return stream{t, host, host.InitializeHttpContext()}
}

// post sends the headers and, in two parts, the body of a request, which the plugin must hold until it is complete. It
// returns the action for its last part.
func (s stream) post(authority string) types.Action {
	s.t.Helper()
	const first, second = `{"model":"m","messages":`, `[{"role":"user","content":"hello"}]}`
	headers := [][2]string{
		{":authority", authority},
		{":method", "POST"},
		{":path", "/v1/chat/completions"},
		{"content-type", "application/json"},
		{"x-warmgate-session", "of the client"},
	}
	if a := s.host.CallOnRequestHeaders(s.id, headers, false); a != types.ActionPause {
		s.t.Errorf("action %v for the headers, want a pause", a)
	}
	if a := s.host.CallOnRequestBody(s.id, []byte(first), false); a != types.ActionPause {
		s.t.Errorf("action %v for the first half of the body, want a pause", a)
	}
	a := s.host.CallOnRequestBody(s.id, []byte(second), true)
	if got := string(s.host.GetCurrentRequestBody(s.id)); got != first+second {
		s.t.Errorf("the body became %q", got)
	}
	return a
}

// requestHeader returns a header of the request as it is now, "" if there is none.
func (s stream) requestHeader(name string) string {
	value, _ := wasmtest.GetHeaderValue(s.host.GetCurrentRequestHeaders(s.id), name)
	return value
}

// respond answers the request and ends it. It returns the headers that the client receives.
func (s stream) respond() func(name string) string {
	s.t.Helper()
	status := [][2]string{{":status", "200"}, {"content-type", "application/json"}}
	if a := s.host.CallOnResponseHeaders(s.id, status, false); a != types.ActionContinue {
		s.t.Errorf("action %v for the response", a)
	}
	const body = `{"usage":{"prompt_tokens":9,"completion_tokens":3}}`
	if a := s.host.CallOnResponseBody(s.id, []byte(body), true); a != types.ActionContinue {
		s.t.Errorf("action %v for the response's body", a)
	}
	if got := string(s.host.GetCurrentResponseBody(s.id)); got != body {
		s.t.Errorf("the response's body became %q", got)
	}
	headers := slices.Clone(s.host.GetCurrentResponseHeaders(s.id))
	s.host.CompleteHttpContext(s.id)
	return func(name string) string {
		value, _ := wasmtest.GetHeaderValue(headers, name)
		return value
	}
}

func decisions(host proxytest.HostEmulator, policy, reason string) uint64 {
	n, err := host.GetCounterMetric(statname.With("warmgate_decisions_total", "policy", policy, "reason", reason))
	if err != nil {
		return 0 // not yet defined
	}
	return n
}

func wantGauge(t *testing.T, host proxytest.HostEmulator, name string, want uint64) {
	t.Helper()
	if n, err := host.GetGaugeMetric(name); err != nil || n != want {
		t.Errorf("%s is %d, %v, want %d", name, n, err, want)
	}
}

func wantLogged(t *testing.T, host proxytest.HostEmulator, want string) {
	t.Helper()
	if logs := strings.Join(host.GetErrorLogs(), "\n"); !strings.Contains(logs, want) {
		t.Errorf("logged %q, want %q", logs, want)
	}
}

// onRules has a rule for each condition, of which one is refused.
const onRules = `{"lb_policy":"global_least_request","_rules_":[
	{"_match_route_":["off"],"enabled":false},
	{"_match_domain_":["*.bad.com"],"lb_policy":"nonsense"},
	{"_match_service_":["llm.dns:80"],"lb_policy":"prefix_cache","lb_config":{"debug_headers":true}},
	{"_match_route_prefix_":["tokens-"],"lb_policy":"global_least_request","lb_config":{"unit":"tokens"}}]}`

func TestHigressArtifact(t *testing.T) {
	const llm, other = "outbound|80||llm.dns", "outbound|81||llm.dns"
	cases := []struct {
		name, route, cluster, authority string
		body                            bool // the rule reads it
		policy, reason, debug           string
	}{
		{"a rule that is switched off", "off", llm, "a.bad.com", false, "none", "disabled", ""},
		{"a refused rule", "r", llm, "a.bad.com:80", false, "none", "config_invalid", ""},
		{"a rule for a service", "tokens-1", llm, "a.com", true, "prefix_cache", "no_endpoints", "no_endpoints"},
		{"a rule for routes", "tokens-1", other, "a.com", true, "global_least_request", "no_endpoints", ""},
		{"the global part", "r", other, "a.com", false, "global_least_request", "no_endpoints", ""},
	}
	run(t, harness.HostHigress, onRules, func(t *testing.T, host proxytest.HostEmulator) {
		wantGauge(t, host, "warmgate_config_valid", 1)
		wantGauge(t, host, "warmgate_config_refused_rules", 1)
		wantLogged(t, host, `_rules_[1].lb_policy: got "nonsense"`)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				before := decisions(host, c.policy, c.reason)
				s := start(t, host, map[string]string{"route_name": c.route, "cluster_name": c.cluster})
				action := types.ActionContinue
				if c.body {
					action = s.post(c.authority)
				} else {
					action = host.CallOnRequestHeaders(s.id, [][2]string{{":authority", c.authority}}, true)
				}
				if action != types.ActionContinue || host.GetSentLocalResponse(s.id) != nil {
					t.Errorf("action %v, answered %v: want native balancing", action, host.GetSentLocalResponse(s.id))
				}
				if got := s.respond()("x-warmgate-reason"); got != c.debug {
					t.Errorf("x-warmgate-reason %q, want %q", got, c.debug)
				}
				if n := decisions(host, c.policy, c.reason); n != before+1 {
					t.Errorf("%d decisions %s %s, want %d", n, c.policy, c.reason, before+1)
				}
			})
		}
		if !host.FinishVM() {
			t.Error("the configuration does not end though no request is open")
		}
	})
}

// A first configuration that is refused does not stop the gateway.
func TestHigressArtifactRefusesConfiguration(t *testing.T) {
	run(t, harness.HostHigress, `{"lb_policy":"nonsense"}`, func(t *testing.T, host proxytest.HostEmulator) {
		wantGauge(t, host, "warmgate_config_valid", 0)
		if n, err := host.GetCounterMetric("warmgate_config_rejected_total"); err != nil || n != 1 {
			t.Errorf("%d configurations refused, %v, want 1", n, err)
		}
		wantLogged(t, host, `lb_policy: got "nonsense"`)
		s := start(t, host, map[string]string{"cluster_name": "outbound|80||llm.dns"})
		if a := host.CallOnRequestHeaders(s.id, [][2]string{{":authority", "a.com"}}, true); a != types.ActionContinue {
			t.Errorf("action %v, want native balancing", a)
		}
		s.respond()
		if n := decisions(host, "none", "config_invalid"); n != 1 {
			t.Errorf("%d decisions config_invalid, want 1", n)
		}
	})
}

// inEnvoy are the properties of a request in stock Envoy.
var inEnvoy = map[string]string{"xds.route_name": "r", "xds.cluster_name": "llm"}

// place sends a request that must be placed, and returns it and the endpoint that it is steered to.
func place(t *testing.T, host proxytest.HostEmulator) (s stream, endpoint string) {
	t.Helper()
	s = start(t, host, inEnvoy)
	if a := s.post("a.com"); a != types.ActionContinue {
		t.Errorf("action %v, want the request to continue", a)
	}
	session, err := base64.StdEncoding.DecodeString(s.requestHeader("x-warmgate-session"))
	if err != nil || len(session) == 0 {
		t.Errorf("steered to %q, %v", session, err)
	}
	return s, string(session)
}

// inflight returns how many requests are in flight at both endpoints of TestEnvoyArtifact, as the next statistics show
// it.
func inflight(host proxytest.HostEmulator) (counts [2]uint64) {
	for range 2000 { // milliseconds
		host.Tick()
	}
	for i, endpoint := range []string{"10.0.0.1:80", "10.0.0.2:80"} {
		counts[i], _ = host.GetGaugeMetric(
			statname.With("warmgate_inflight_requests", "cluster", "llm", "endpoint", endpoint))
	}
	return counts
}

// With two endpoints and a cap of one request, two requests are placed and the third is shed, until one has ended.
func TestEnvoyArtifact(t *testing.T) {
	const config = `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens","max_inflight":1,
		"overload":{"retry_after":"2s"},"debug_headers":true,"envoy":{"endpoints":["10.0.0.1:80","10.0.0.2:80"]}}}`
	run(t, harness.HostEnvoy, config, func(t *testing.T, host proxytest.HostEmulator) {
		first, one := place(t, host)
		// This host, unlike real ones, copies no header that it is given: it shows what the plugin's memory has by now.
		retry := strings.Clone(first.requestHeader("x-gateway-destination-endpoint"))
		if _, two := place(t, host); two != retry || two == one {
			t.Errorf("steered to %s, want the endpoint where the first request, to %s, would be retried", two, one)
		}
		if got := inflight(host); got != [2]uint64{1, 1} {
			t.Errorf("%v in flight, want 1 at each endpoint", got)
		}

		shed := start(t, host, inEnvoy)
		if a := shed.post("a.com"); a != types.ActionPause {
			t.Errorf("action %v, want the request held", a)
		}
		reply := host.GetSentLocalResponse(shed.id)
		if reply == nil || reply.StatusCode != 429 || !strings.Contains(string(reply.Data), `"code":"at_capacity"`) ||
			!slices.Contains(reply.Headers, [2]string{"retry-after", "2"}) {
			t.Errorf("answered %+v", reply)
		}
		host.CompleteHttpContext(shed.id)

		header := first.respond()
		if host, reason := header("x-warmgate-host"), header("x-warmgate-reason"); host != one || reason != "chosen" {
			t.Errorf("debug headers %q, %q", host, reason)
		}
		if got := inflight(host); got[0]+got[1] != 1 {
			t.Errorf("%v in flight, want one", got)
		}
		if _, again := place(t, host); again != one {
			t.Errorf("steered to %s, want %s, which has none in flight", again, one)
		}
		if n := decisions(host, "global_least_request", "chosen"); n != 3 {
			t.Errorf("%d requests placed, want 3", n)
		}
		if n := decisions(host, "global_least_request", "at_capacity"); n != 1 {
			t.Errorf("%d requests shed, want 1", n)
		}
	})
}

// Without endpoints requests fall back to native balancing and lose what a client sent to steer them, and the admin
// interface is requested. Its answer cannot be tested here: endpoints are published in shared memory by a write without
// a compare-and-swap value, and this host refuses such a write of a key that exists, unlike Envoy.
func TestEnvoyArtifactRequestsEndpoints(t *testing.T) {
	const config = `{"lb_policy":"global_least_request","lb_config":{"unit":"tokens",
		"envoy":{"admin_cluster":"admin"}}}`
	run(t, harness.HostEnvoy, config, func(t *testing.T, host proxytest.HostEmulator) {
		s := start(t, host, inEnvoy)
		if a := s.post("a.com"); a != types.ActionContinue || s.requestHeader("x-warmgate-session") != "" {
			t.Errorf("action %v, steered by %q, want native balancing", a, s.requestHeader("x-warmgate-session"))
		}
		s.respond()
		if n := decisions(host, "global_least_request", "no_endpoints"); n != 1 {
			t.Errorf("%d decisions no_endpoints, want 1", n)
		}
		var calls []proxytest.HttpCalloutAttribute
		for ms := 0; len(calls) == 0 && ms < 20_000; ms++ { // a worker's VM waits first for that of the main thread
			host.Tick()
			calls = host.GetCalloutAttributesFromContext(proxytest.PluginContextID)
		}
		if len(calls) != 1 || calls[0].Upstream != "admin" ||
			!slices.Contains(calls[0].Headers, [2]string{":path", "/clusters"}) {
			t.Errorf("called %+v, want /clusters of admin", calls)
		}
	})
}
