package layouts

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// filter is one that is put in front of the plugin, and behind it.
type filter struct {
	name    string
	typed   string // its configuration, YAML
	onRoute string // on the route, "" where it has none
	// headers with which it lets requests pass, names and values by turns
	pass  []string
	stop  *stopped                                // a request that it answers itself, nil where there is none
	check func(t *testing.T, l *lab, name string) // in place of all that, nil for none
}

// stopped is a request that a filter answers without passing it on.
type stopped struct {
	query
	status int
}

// of is the type of a filter's configuration.
func of(message string) string {
	return "\"@type\": " + types + "extensions.filters.http." + message + "\n"
}

// authzService is the service of ext_authz, the server of the cluster authz.
const authzService = `http_service:
  server_uri: {uri: http://authz, cluster: ` + authz + `, timeout: 60s}
  authorization_request: {allowed_headers: {patterns: [{exact: x-deny}]}}
`

var filterCases = []filter{
	{
		name: "ext_authz", typed: of("ext_authz.v3.ExtAuthz") + authzService,
		stop: &stopped{query{header: []string{"x-deny", "1"}}, http.StatusForbidden},
	},
	{
		name:  "ext_authz with the body",
		typed: of("ext_authz.v3.ExtAuthz") + authzService + "with_request_body: {max_request_bytes: 65536}",
		stop:  &stopped{query{body: `{"prompt":"forbidden"}`}, http.StatusForbidden},
	},
	{
		name: "jwt_authn",
		typed: of("jwt_authn.v3.JwtAuthentication") + `
providers: {p: {issuer: test, local_jwks: {inline_string: '` + jwks() + `'}}}
rules: [{match: {prefix: /}, requires: {provider_name: p}}]`,
		pass: []string{"authorization", "Bearer " + token()},
		stop: &stopped{query{}, http.StatusUnauthorized},
	},
	{
		name: "rate limit",
		typed: of("local_ratelimit.v3.LocalRateLimit") + `
stat_prefix: limit
token_bucket: {max_tokens: ` + strconv.Itoa(allowed) + `, fill_interval: 3600s}
filter_enabled: {default_value: {numerator: 100}}
filter_enforced: {default_value: {numerator: 100}}`,
	},
	{name: "buffer", typed: of("buffer.v3.Buffer") + "max_request_bytes: 65536"},
	{
		name: "compressor",
		typed: of("compressor.v3.Compressor") + `
response_direction_config: {common_config: {min_content_length: 1, content_type: [text/plain]}}
compressor_library: {name: gzip, typed_config: {"@type": ` + types + `extensions.compression.gzip.compressor.v3.Gzip}}`,
		check: compresses,
	},
	{
		name: "lua",
		typed: of("lua.v3.Lua") + `
default_source_code:
  inline_string: |
    function envoy_on_request(h)
      if h:headers():get("x-deny") then
        h:respond({[":status"] = "418"}, "no")
      else
        local length = h:body():length()
        h:headers():add("x-lua", tostring(length))
      end
    end
    function envoy_on_response(h) h:headers():add("x-lua", "seen") end`,
		stop: &stopped{query{header: []string{"x-deny", "1"}}, http.StatusTeapot},
	},
	{
		name: "cors", typed: of("cors.v3.Cors"),
		onRoute: of("cors.v3.CorsPolicy") + "allow_origin_string_match: [{exact: " +
			"http://page.test}]\nallow_methods: POST",
		pass: []string{"origin", "http://page.test"},
		stop: &stopped{query{method: http.MethodOptions, header: []string{
			"origin", "http://page.test", "access-control-request-method", "POST",
		}}, http.StatusOK},
	},
	{
		name: "fault",
		typed: of("fault.v3.HTTPFault") + `
delay: {fixed_delay: 0.01s, percentage: {numerator: 100}}
abort: {header_abort: {}, percentage: {numerator: 100}}`,
		stop: &stopped{query{header: []string{"x-envoy-fault-abort-request", "503"}}, http.StatusServiceUnavailable},
	},
	{
		name: "health_check",
		typed: of("health_check.v3.HealthCheck") + `
pass_through_mode: false
headers: [{name: ":path", string_match: {suffix: /healthz}}]`,
		stop: &stopped{query{method: http.MethodGet, path: "/healthz"}, http.StatusOK},
	},
	{
		name: "rbac",
		typed: of("rbac.v3.RBAC") + `
rules:
  action: DENY
  policies: {p: {principals: [{any: true}], permissions: [{header: {name: x-deny, present_match: true}}]}}`,
		stop: &stopped{query{header: []string{"x-deny", "1"}}, http.StatusForbidden},
	},
}

// allowed is how many requests the bucket of the rate limit is for.
const allowed = 8

// filterLayouts are each filter in front of the plugin and behind it.
func filterLayouts() []layout {
	var list []layout
	for _, f := range filterCases {
		front := layout{name: f.name + " in front", front: f.typed, onRoute: f.onRoute, check: f.in(true)}
		behind := layout{name: f.name + " behind", behind: f.typed, onRoute: f.onRoute, check: f.in(false)}
		switch {
		case f.check != nil:
			front.check, behind.check = f.check, f.check
		case f.name == "rate limit":
			front.check = func(t *testing.T, l *lab, name string) { limits(t, l, name, true) }
			behind.check = func(t *testing.T, l *lab, name string) { limits(t, l, name, false) }
		}
		list = append(list, front, behind)
	}
	return list
}

// in checks the filter at its place. What it lets pass is balanced. What it answers never reaches a plugin behind it; a
// plugin in front of it counts such a request as chosen, and as no failure of the endpoint.
func (f filter) in(front bool) func(t *testing.T, l *lab, name string) {
	return func(t *testing.T, l *lab, name string) {
		l.balances(t, name, size, query{header: f.pass})
		if f.stop == nil {
			return
		}
		for _, host := range []string{byRequests, byTokens} {
			before := l.g.SumT(t, `^wasmcustom\.warmgate_decisions_total`)
			const times = 10 // twice as many as failures that eject
			for range times {
				q := f.stop.query
				q.host = host
				a := l.must(t, name, q)
				want := "chosen"
				if front {
					want = ""
				}
				if a.status != f.stop.status || a.reason() != want {
					t.Fatalf("%s: %d, reason %q, want %d and %q: %s", host, a.status, a.reason(), f.stop.status,
						want, a.body)
				}
			}
			want := 0.0
			if !front {
				want = times
			}
			if n := l.g.SumT(t, `^wasmcustom\.warmgate_decisions_total`) - before; n != want {
				t.Errorf("%s: %v requests were decided, want %v", host, n, want)
			}
			l.asNative(t, name, func() query { q := f.stop.query; q.host = host; return q }())
		}
		l.even(t, name, size, query{host: byRequests, header: f.pass})
	}
}

// limits sends requests one after the other, more than the bucket is for.
func limits(t *testing.T, l *lab, name string, front bool) {
	good := 0
	for i := range 2 * allowed {
		a := l.must(t, name, query{})
		switch {
		case a.status == http.StatusOK:
			good++
		case a.status != http.StatusTooManyRequests || a.body != "local_rate_limited":
			t.Fatalf("%d, %q", a.status, a.body)
		}
		if passed := a.status == http.StatusOK; !passed && front != (a.reason() == "") {
			t.Errorf("request %d: %d, reason %q", i, a.status, a.reason())
		}
	}
	if good != allowed {
		t.Errorf("%d requests passed, want %d", good, allowed)
	}
	if !front {
		settled(t, l, name) // although the limit answers them all
	}
}

// compresses reads compressed answers.
func compresses(t *testing.T, l *lab, name string) {
	text := strings.Repeat("hello ", 1000)
	id, _ := l.fleet.begin(func(w http.ResponseWriter, _ *http.Request, _, _ int) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, text)
	})
	q := query{exchange: id, header: []string{"accept-encoding", "gzip"}}
	for _, q.host = range []string{byRequests, byTokens, native} {
		if q.host != native {
			l.known(t, name, q.host, q)
		}
		a := l.must(t, name, q)
		unpacked, err := gzip.NewReader(bytes.NewReader([]byte(a.body)))
		if err != nil {
			t.Fatalf("%d %v: %v", a.status, a.header, err)
		}
		if plain, err := io.ReadAll(unpacked); err != nil || string(plain) != text {
			t.Errorf("%.100q, %v", plain, err)
		}
	}
	l.balances(t, name, size, query{})
}

const authz = "authz" // the cluster of ext_authz's server

// extraClusters are those that filters, mirrors and the tunnel send to.
func extraClusters(t *testing.T, f *fleet) []string {
	t.Helper()
	judge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("x-deny") != "" || strings.Contains(string(body), "forbidden") {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	t.Cleanup(judge.Close)
	const head = "'@type': " + types + "config.cluster.v3.Cluster\ntype: STATIC\nconnect_timeout: 60s\n"
	list := []string{tunnelCluster()}
	for name, addrs := range map[string][]string{authz: {judge.Listener.Addr().String()}, mirror: f.plain[:1]} {
		list = append(list, head+"name: "+name+"\n"+assignment(name, addrs))
	}
	return list
}

const secret = "not really secret, but long enough for HMAC"

// jwks is the key in the form that jwt_authn reads, token a token of it.
func jwks() string {
	return `{"keys":[{"kty":"oct","alg":"HS256","kid":"k","k":"` + encoded([]byte(secret)) + `"}]}`
}

func token() string {
	text := encoded([]byte(`{"alg":"HS256","kid":"k"}`)) + "." + encoded([]byte(`{"iss":"test"}`))
	sum := hmac.New(sha256.New, []byte(secret))
	_, _ = io.WriteString(sum, text)
	return text + "." + encoded(sum.Sum(nil))
}

func encoded(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
