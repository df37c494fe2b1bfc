package routes

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// versions are those that each case runs on.
var versions = []string{harness.DefaultVersion, harness.OldestVersion}

// server is a model server whose answers the request orders, by these headers:
//
//	x-hold: yes      the answer begins and continues until the client leaves
//	x-fail: 2        the first two attempts are answered with 503
//	x-status: 500    is the status of the answer
//	x-redirect: URL  is where the answer sends the client
//
// Any other answer is JSON that has usage in it.
type server struct {
	*httptest.Server

	mu   sync.Mutex
	seen []http.Header
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := new(server)
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	r.Header.Set("x-test-host", r.Host)
	s.seen = append(s.seen, r.Header)
	s.mu.Unlock()
	attempt, _ := strconv.Atoi(r.Header.Get("x-envoy-attempt-count"))
	failures, _ := strconv.Atoi(r.Header.Get("x-fail"))
	status, _ := strconv.Atoi(r.Header.Get("x-status"))
	w.Header().Set("x-served-by", s.addr())
	switch {
	case attempt > 0 && attempt <= failures:
		w.WriteHeader(http.StatusServiceUnavailable)
	case status > 0:
		w.WriteHeader(status)
	case r.Header.Get("x-redirect") != "" && r.Header.Get("x-envoy-original-url") == "":
		w.Header().Set("location", r.Header.Get("x-redirect"))
		w.WriteHeader(http.StatusFound)
	case r.Header.Get("x-hold") != "":
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		w.Header().Set("content-type", "application/json")
		_, _ = io.WriteString(w, `{"usage":{"prompt_tokens":10,"completion_tokens":10,`+
			`"prompt_tokens_details":{"cached_tokens":0}}}`)
	}
}

func (s *server) addr() string { return s.Listener.Addr().String() }

// take returns the headers of the requests since the last call.
func (s *server) take() []http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

func newServers(t *testing.T, n int) []*server {
	t.Helper()
	list := make([]*server, n)
	for i := range list {
		list[i] = newServer(t)
	}
	return list
}

func addrs(list []*server) []string {
	var out []string
	for _, s := range list {
		out = append(out, s.addr())
	}
	return out
}

// endpoints returns servers as the endpoints of the cluster llm.
func endpoints(list []*server) []harness.Endpoint {
	var out []harness.Endpoint
	for _, s := range list {
		out = append(out, harness.Endpoint{Addr: s.addr()})
	}
	return out
}

// hosts writes a list of endpoints in YAML. The i-th is of the version v1, v2, v1 and so on, for subsets.
func hosts(list []*server) string {
	var out []string
	for i, s := range list {
		host, port, _ := net.SplitHostPort(s.addr())
		out = append(out, fmt.Sprintf("{endpoint: {address: {socket_address: {address: %s, port_value: %s}}}, "+
			"metadata: {filter_metadata: {envoy.lb: {version: v%d}}}}", host, port, 1+i%2))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// Paths in envoy.yaml.
const (
	filtersPath  = harness.ManagerPath + ".http_filters"
	hostPath     = harness.ManagerPath + ".route_config.virtual_hosts[name=llm]"
	clustersPath = "static_resources.clusters"
)

// modelRouter is a filter that does what model routers do: it turns one header into the one that routes go by, and
// clears the route that Envoy has found before.
func modelRouter(name, from string) string {
	return `
- name: ` + name + `
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
    default_source_code:
      inline_string: |
        function envoy_on_request(request)
          local model = request:headers():get("` + from + `")
          if model then
            request:headers():replace("x-model", model)
            request:clearRouteCache()
          end
        end
`
}

// stage is a gateway with its servers.
type stage struct {
	*harness.Gateway
	t *testing.T
}

// rule is the configuration of the plugin in a rule or in the global part: where endpoints are from, and more lines of
// lb_config.
func rule(source string, lines ...string) string {
	all := append([]string{source, `"debug_headers":true`, `"health":{"slow_start":0}`}, lines...)
	return `"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{` + strings.Join(all, ",") + `}`
}

// fromAdmin takes endpoints from the admin page.
const fromAdmin = `"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"}`

// only takes these endpoints.
func only(list []*server) string {
	return `"envoy":{"endpoints":["` + strings.Join(addrs(list), `","`) + `"]}`
}

// start runs a gateway whose envoy.yaml is edited.
func start(t *testing.T, o harness.Options, edits ...func(doc *yaml.Node) error) *stage {
	t.Helper()
	o.Edit = harness.OfFile("envoy.yaml", edits...)
	return &stage{harness.StartT(t, o), t}
}

// send sends a request without a body: see post.
func (s *stage) send(headers ...string) *http.Response {
	s.t.Helper()
	return s.post("", headers...)
}

// post sends a request with headers, each as "name: value", on a connection of its own, so that any worker may get it.
// The answer's body is closed when the test ends.
func (s *stage) post(body string, headers ...string) *http.Response {
	s.t.Helper()
	method, path := http.MethodGet, "/sim/echo"
	if body != "" {
		method, path = http.MethodPost, "/v1/completions"
	}
	return harness.OpenT(s.t, nil, method, s.URL()+path, body, headers...)
}

// answer sends a request and reads its answer to the end.
func (s *stage) answer(headers ...string) *http.Response {
	s.t.Helper()
	resp := s.send(headers...)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// awaitReason waits until requests with these headers are counted under the reason by both workers.
func (s *stage) awaitReason(reason string, headers ...string) {
	s.t.Helper()
	harness.AwaitReason(s.t, s.URL(), reason, headers...)
}
