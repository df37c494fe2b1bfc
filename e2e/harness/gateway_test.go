package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// probe builds the test plugin.
func probe(t *testing.T) string {
	t.Helper()
	out, err := BuildWasm(t.Context(), "./e2e/harness/testdata/probe")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// upstreams starts n servers that answer with their own address.
func upstreams(t *testing.T, n int) []Endpoint {
	t.Helper()
	var list []Endpoint
	for range n {
		list = append(list, ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Context().Value(http.LocalAddrContextKey))
		})))
	}
	return list
}

func TestGateway(t *testing.T) {
	module := probe(t)
	all := []Options{
		{Version: OldestVersion, Hardened: true},
		{},
		{Version: OldestVersion},
		{Hardened: true},
	}
	if testing.Short() {
		all = all[:1]
	}
	for _, o := range all {
		t.Run(o.Version+map[bool]string{true: " hardened"}[o.Hardened], func(t *testing.T) {
			ctx := t.Context()
			hosts := upstreams(t, 2)
			o.Module, o.Config, o.Endpoints = module, "one", hosts[:1]
			g, err := Start(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Stop()
			t.Run("plugin", func(t *testing.T) { testPlugin(ctx, t, g) })
			t.Run("endpoints", func(t *testing.T) { testEndpoints(ctx, t, g, hosts) })
			t.Run("cluster", func(t *testing.T) { testCluster(ctx, t, g) })
			t.Run("observe", func(t *testing.T) { testObserve(ctx, t, g) })
		})
	}
}

func testPlugin(ctx context.Context, t *testing.T, g *Gateway) {
	for _, step := range []struct {
		push    string
		refused bool
		want    string // of the header x-probe
	}{
		{"two", false, "two"},
		{"bad", true, "two"},
		{"two", false, "two"},
		{`{"x":[1]}`, false, `{"x":[1]}`},
	} {
		err := g.PushPlugin(ctx, step.push)
		var rejected *RejectedError
		if errors.As(err, &rejected) != step.refused || (err != nil) != step.refused {
			t.Fatalf("push %q: %v", step.push, err)
		}
		if step.refused && !strings.Contains(rejected.Log, `refused configuration "bad"`) {
			t.Errorf("push %q: the error does not contain the plugin's message: %v", step.push, err)
		}
		for range 16 {
			if resp := Get(t, g.URL()); resp.Header.Get("X-Probe") != step.want {
				t.Errorf("after push %q: x-probe is %q, want %q", step.push, resp.Header.Get("X-Probe"), step.want)
			}
		}
	}
	if resp := Get(t, g.URL()); (resp.Header.Get("X-Probe-Added") == "") != g.options.Hardened {
		t.Errorf("a call that Warmgate does not need: x-probe-added is %q", resp.Header.Get("X-Probe-Added"))
	}
	if err := g.PushNoPlugin(ctx); err != nil {
		t.Fatal(err)
	}
	if resp := Get(t, g.URL()); resp.Header.Get("X-Probe") != "" {
		t.Error("the plugin still runs after PushNoPlugin")
	}
	if err := g.PushPlugin(ctx, ""); err != nil {
		t.Fatal(err)
	}
	if resp := Get(t, g.URL()); !strings.Contains(resp.Header.Get("X-Probe"), `"lb_policy":"global_least_request"`) {
		t.Errorf("the shipped configuration reaches the plugin as %q", resp.Header.Get("X-Probe"))
	}
}

func testEndpoints(ctx context.Context, t *testing.T, g *Gateway, hosts []Endpoint) {
	drained := Endpoint{Addr: hosts[0].Addr, Health: "DRAINING"}
	for _, list := range [][]Endpoint{{hosts[1]}, {hosts[0]}, {drained, hosts[1]}, hosts} {
		if err := g.PushEndpoints(ctx, list); err != nil {
			t.Fatal(err)
		}
		want := list[len(list)-1].Addr
		if got := Get(t, g.URL()).Body; got != want && len(list) == 1 {
			t.Errorf("endpoints %v: served by %s", list, got)
		}
	}
	text, err := g.Clusters(ctx)
	if err != nil || !strings.Contains(text, "llm::"+hosts[1].Addr+"::rq_active::") {
		t.Errorf("admin /clusters does not show %s: %v\n%s", hosts[1].Addr, err, text)
	}
	if err := g.PushEndpoints(ctx, []Endpoint{{Addr: "nonsense"}}); err == nil {
		t.Error("an address without a port was pushed")
	}
}

func testCluster(ctx context.Context, t *testing.T, g *Gateway) {
	for _, policy := range []Policy{RoundRobin, LeastRequest, Warmgate} {
		if err := g.PushCluster(ctx, policy); err != nil {
			t.Fatal(err)
		}
		served := map[string]int{}
		for range 20 {
			host := Get(t, g.URL()).Body
			served[host]++
		}
		if len(served) != 2 {
			t.Errorf("%s: served by %v, want both endpoints", policy, served)
		}
	}
	if err := g.PushCluster(ctx, "nonsense"); err == nil {
		t.Error("an unknown policy was pushed")
	}
}

func testObserve(ctx context.Context, t *testing.T, g *Gateway) {
	before, err := g.Sum(ctx, `^http\.ingress\.downstream_rq_total$`)
	if err != nil || before == 0 {
		t.Fatalf("requests counted: %v, %v", before, err)
	}
	Get(t, g.URL())
	if after, err := g.Sum(ctx, `^http\.ingress\.downstream_rq_total$`); err != nil || after != before+1 {
		t.Errorf("requests counted: %v, want %v (%v)", after, before+1, err)
	}
	if text, err := g.Prometheus(ctx); err != nil || !strings.Contains(text, "envoy_http_downstream_rq_total") {
		t.Errorf("Prometheus page: %v, %.200s", err, text)
	}
	if cpu, err := g.CPU(); err != nil || cpu <= 0 || cpu > time.Hour {
		t.Errorf("CPU: %v, %v", cpu, err)
	}
	if rss, err := g.RSS(); err != nil || rss < 10<<20 || rss > 4<<30 {
		t.Errorf("RSS: %v, %v", rss, err)
	}
	if n, resident, err := g.Used(ctx); err != nil || n < 10<<20 || n > resident {
		t.Errorf("%d bytes used, %d resident, %v", n, resident, err)
	}
}

func TestStartReportsWhyItFailed(t *testing.T) {
	_, err := Start(context.Background(), Options{NoPlugin: true, Edit: func(file string, doc *yaml.Node) error {
		if file != "envoy.yaml" {
			return nil
		}
		return Set(doc, "no_such_field", true)
	}})
	if err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("error does not name the cause: %v", err)
	}
}
