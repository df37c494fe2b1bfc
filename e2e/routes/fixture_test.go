package routes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// patience bounds every wait, on a machine that may be busy.
const patience = time.Minute

// versions are those that each case runs on.
var versions = []string{harness.DefaultVersion, harness.OldestVersion}

// server is a model server whose answers the request orders, by these headers:
//
//	x-hold: yes      the answer begins and goes on until the client leaves
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
	managerPath  = "static_resources.listeners[name=main].filter_chains[0].filters[0].typed_config"
	filtersPath  = managerPath + ".http_filters"
	hostPath     = managerPath + ".route_config.virtual_hosts[name=llm]"
	clustersPath = "static_resources.clusters"
)

// prepend adds the elements of a list in YAML in front of the element of the list at path that has the name, or of all.
func prepend(doc *yaml.Node, path, name, text string) error {
	list, err := harness.Find(doc, path)
	if err != nil {
		return err
	}
	at := 0
	if name != "" {
		at = slices.IndexFunc(list.Content, func(n *yaml.Node) bool {
			named, err := harness.Find(n, "name")
			return err == nil && named.Value == name
		})
		if at < 0 {
			return fmt.Errorf("%s has no element %s", path, name)
		}
	}
	var more yaml.Node
	if err := yaml.Unmarshal([]byte(text), &more); err != nil {
		return fmt.Errorf("%s: %w\n%s", path, err, text)
	}
	list.Content = slices.Insert(list.Content, at, more.Content[0].Content...)
	return nil
}

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
	o.Edit = func(file string, doc *yaml.Node) error {
		if file != "envoy.yaml" {
			return nil
		}
		for _, edit := range edits {
			if err := edit(doc); err != nil {
				return err
			}
		}
		return nil
	}
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
	method, path := http.MethodGet, "/v1/models"
	if body != "" {
		method, path = http.MethodPost, "/v1/completions"
	}
	req, err := http.NewRequest(method, s.URL()+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "host" {
			req.Host = value
			continue
		}
		req.Header.Set(name, value)
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
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

// await calls check until it succeeds.
func (s *stage) await(check func() error) {
	s.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.t.Fatal(err)
		}
	}
}

// awaitReason waits until 16 requests in a row are counted under the reason, so that both workers know what is needed.
func (s *stage) awaitReason(reason string, headers ...string) {
	s.t.Helper()
	s.await(func() error {
		for range 16 {
			if got := s.answer(headers...).Header.Get("x-warmgate-reason"); got != reason {
				return fmt.Errorf("%q: the reason is %q, want %q", headers, got, reason)
			}
		}
		return nil
	})
}

// sum adds up the statistics whose name matches.
func (s *stage) sum(filter string) float64 {
	s.t.Helper()
	n, err := s.Sum(context.Background(), filter)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// drained waits until nothing is counted in flight, and checks that no VM was lost and nothing was blamed or corrected.
func (s *stage) drained() {
	s.t.Helper()
	s.await(func() error {
		if n := s.sum(`^wasmcustom\.warmgate_inflight_`); n != 0 {
			return fmt.Errorf("%v requests are counted in flight, none is", n)
		}
		return nil
	})
	const never = `^wasmcustom\.warmgate_(recovered_panics|store_corrected)_total$|^wasm\.warmgate\.vm_reload_`
	if n := s.sum(never); n != 0 {
		s.t.Errorf("%v panics, corrections or lost VMs", n)
	}
}

// edit applies several edits of one document.
func edit(edits ...error) error { return errors.Join(edits...) }
