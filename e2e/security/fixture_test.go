package security

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/internal/vllmsim"
)

// The headers that carry a choice between the plugin and Envoy's load balancer.
const (
	destination = "x-gateway-destination-endpoint"
	session     = "x-warmgate-session"
)

// fleet is a group of simulated model servers that watch the headers they are sent.
type fleet struct {
	endpoints []harness.Endpoint

	mu     sync.Mutex
	served map[string]int // requests to the model by endpoint
	leaks  []string       // internal headers that arrived
}

// newFleet starts n servers that answer at once.
func newFleet(t *testing.T, n int) *fleet {
	t.Helper()
	f := &fleet{served: map[string]int{}}
	for i := range n {
		model := vllmsim.New(vllmsim.Config{Index: i, Instant: true, Adapters: []string{"m", "m2"}})
		f.endpoints = append(f.endpoints, harness.ServeT(t, f.watch(model)))
	}
	return f
}

func (f *fleet) watch(model http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			f.mu.Lock()
			f.served[fmt.Sprint(r.Context().Value(http.LocalAddrContextKey))]++
			f.leaks = append(f.leaks, internal(r.Header)...)
			f.mu.Unlock()
		}
		model.ServeHTTP(w, r)
		f.mu.Lock()
		f.leaks = append(f.leaks, internal(r.Trailer)...) // complete only now that the body has been read
		f.mu.Unlock()
	})
}

// take returns what the servers have seen since the last call.
func (f *fleet) take() (served map[string]int, leaks []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	served, leaks = f.served, f.leaks
	f.served, f.leaks = map[string]int{}, nil
	return served, leaks
}

// internal returns the headers of the message that are internal to the gateway. A trailer that was announced and not
// sent is there without a value.
func internal(h http.Header) []string {
	var found []string
	for name, values := range h {
		lower := strings.ToLower(name)
		if len(values) > 0 && (lower == destination || strings.HasPrefix(lower, "x-warmgate-")) {
			found = append(found, fmt.Sprintf("%s: %q", lower, values))
		}
	}
	return found
}

// chat is a request to the model with an answer of one token.
const chat = `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hello"}]}`

// steering is the plugin configuration of these tests. Slow start is off, so that each endpoint has its full share at
// once.
const steering = `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{
	"envoy":{"admin_cluster":"warmgate-admin","poll_interval":"100ms"},"health":{"slow_start":0}}}`

// clients keep a connection each, so that requests which take them in turn reach all of Envoy's workers. The second
// half speaks HTTP/2.
var clients [8]http.Client

func init() {
	for i := range clients {
		clients[i].Transport = new(http.Transport)
		if i >= len(clients)/2 {
			clients[i].Transport = harness.H2C().Transport
		}
	}
}

// drain reads an answer to its end.
func drain(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// layouts are the two shipped layouts.
var layouts = map[string]harness.Options{
	"plain":    {},
	"hardened": {Hardened: true},
}
