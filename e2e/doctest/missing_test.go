package doctest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/vllmsim"
)

const (
	wasmPath    = "resources[name=warmgate].typed_config.config"
	filtersPath = "static_resources.listeners[name=main].filter_chains[0].filters[0].typed_config.http_filters"
)

// without starts a gateway in front of two servers, with the shipped files changed by edit, and waits until it chooses.
func without(t *testing.T, config string, edit func(file string, doc *yaml.Node) error) *harness.Gateway {
	t.Helper()
	o := harness.Options{Config: config, Edit: edit}
	for i := range 2 {
		server := httptest.NewServer(vllmsim.New(vllmsim.Config{Index: i, Instant: true}))
		t.Cleanup(server.Close)
		o.Endpoints = append(o.Endpoints, harness.Endpoint{Addr: server.Listener.Addr().String()})
	}
	g := harness.StartT(t, o)
	deadline := time.Now().Add(time.Minute)
	for reason := ""; reason != "chosen" && reason != "body_late"; reason = ask(t, g).Get("X-Warmgate-Reason") {
		if time.Now().After(deadline) {
			t.Fatalf("still %s after a minute", reason)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return g
}

// ask sends a chat request and returns the headers of the answer.
func ask(t *testing.T, g *harness.Gateway) http.Header {
	t.Helper()
	const body = `{"model": "m", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL()+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%s: %s, %v", answer.Status, text, err)
	}
	return answer.Header
}

func configured(unit string) string {
	return `{"lb_policy":"global_least_request","lb_config":{"unit":"` + unit +
		`","debug_headers":true,"envoy":{"admin_cluster":"warmgate-admin"}}}`
}

// TestMissingFlagAndLabels holds docs/envoy.md and docs/metrics.md to what they say of an Envoy without
// allow_on_headers_stop_iteration and without stats_tags.
func TestMissingFlagAndLabels(t *testing.T) {
	g := without(t, configured("tokens"), func(file string, doc *yaml.Node) error {
		switch file {
		case "envoy.yaml":
			return harness.Remove(doc, "stats_config.stats_tags")
		case "warmgate.yaml":
			return harness.Remove(doc, wasmPath+".allow_on_headers_stop_iteration")
		}
		return nil
	})
	begun := time.Now()
	if reason := ask(t, g).Get("X-Warmgate-Reason"); reason != "body_late" {
		t.Errorf("unit tokens: reason %s, want body_late", reason)
	}
	if d := time.Since(begun); d < 200*time.Millisecond {
		t.Errorf("unit tokens: answered after %v, want at least most of body_timeout", d)
	}
	if err := g.PushPlugin(t.Context(), configured("requests")); err != nil {
		t.Fatal(err)
	}
	if reason := ask(t, g).Get("X-Warmgate-Reason"); reason != "chosen" {
		t.Errorf("unit requests: reason %s, want chosen", reason)
	}
	text, err := g.Prometheus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if name := "warmgate_decisions_total_policy_global_least_request_reason_chosen"; !strings.Contains(text, "\n"+name+"{") {
		t.Errorf("no %s without stats_tags", name)
	}
}

// TestMissingSession holds docs/envoy.md to what it says of an Envoy without stateful_session: the choice is lost, the second
// one serves, and the count follows.
func TestMissingSession(t *testing.T) {
	g := without(t, configured("requests"), func(file string, doc *yaml.Node) error {
		if file != "envoy.yaml" {
			return nil
		}
		filters, err := harness.Find(doc, filtersPath)
		if err != nil {
			return err
		}
		var kept []*yaml.Node
		for _, f := range filters.Content {
			if name, err := harness.Find(f, "name"); err != nil || name.Value != "envoy.filters.http.stateful_session" {
				kept = append(kept, f)
			}
		}
		if len(kept) != len(filters.Content)-1 {
			t.Errorf("%d of %d filters left", len(kept), len(filters.Content))
		}
		filters.Content = kept
		return nil
	})
	const moves = `^wasmcustom\.warmgate_lease_moves_total$`
	before, err := g.Sum(t.Context(), moves)
	if err != nil {
		t.Fatal(err)
	}
	const requests = 5
	for range requests {
		ask(t, g)
	}
	after, err := g.Sum(t.Context(), moves)
	if err != nil {
		t.Fatal(err)
	}
	if after-before != requests {
		t.Errorf("%v leases moved, want all %d", after-before, requests)
	}
}
