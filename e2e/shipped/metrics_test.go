package shipped

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/internal/vllmsim"
	"github.com/warmgate/warmgate/plugin/config"
)

// metricsText returns the configuration that warmgate-metrics.yaml has.
func metricsText(t *testing.T) string {
	t.Helper()
	return find[string](t, parse(t, "envoy-config/warmgate-metrics.yaml"), pluginPath+".configuration.value")
}

// TestMetricsConfiguration compares warmgate-metrics.yaml with warmgate.yaml, and with the cluster that it names.
func TestMetricsConfiguration(t *testing.T) {
	c := samePlugin(t, "warmgate-metrics.yaml")
	if !c.ByMetrics() || !c.Scrapes(config.Envoy) {
		t.Errorf("it does not go by metrics: %+v", c)
	}
	for _, file := range []string{"envoy.yaml", "envoy-hardened.yaml"} {
		kind := find[string](t, parse(t, "envoy-config/"+file), "static_resources.clusters[name="+
			c.Engines.Cluster+"].type")
		if kind != "ORIGINAL_DST" {
			t.Errorf("%s: cluster %s has type %s", file, c.Engines.Cluster, kind)
		}
	}
}

// engine is a model server with metrics.
func engine() http.Handler { return vllmsim.New(vllmsim.Config{Instant: true}) }

// onlyAt serves metrics at a path of their own, as TensorRT-LLM does.
func onlyAt(path string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			w.WriteHeader(http.StatusNotFound)
			return
		case path:
			r.URL.Path = "/metrics"
		}
		h.ServeHTTP(w, r)
	})
}

// overTLS has the gateway speak TLS to the model servers, as docs/envoy.md describes.
func overTLS(file string, doc *yaml.Node) error {
	socket := map[string]any{
		"name": "envoy.transport_sockets.tls",
		"typed_config": map[string]any{
			"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
		},
	}
	switch file {
	case "clusters.yaml":
		return harness.Set(doc, "resources[name=llm].transport_socket", socket)
	case "envoy.yaml":
		return harness.Set(doc, "static_resources.clusters[name=warmgate-metrics].transport_socket", socket)
	}
	return nil
}

// TestMetricsAsShipped starts both layouts with the shipped plugin configuration for endpoint_metrics, and with the
// changes that docs/envoy.md describes for other engines.
func TestMetricsAsShipped(t *testing.T) {
	const page = "/prometheus/metrics"
	plain, own, secret := httptest.NewServer(engine()), httptest.NewServer(onlyAt(page, engine())),
		httptest.NewTLSServer(engine())
	for _, s := range []*httptest.Server{plain, own, secret} {
		t.Cleanup(s.Close)
	}
	_, port, err := net.SplitHostPort(own.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := strings.NewReplacer(`"/metrics"`, `"`+page+`"`, `"port": 0`, `"port": `+port).Replace(metricsText(t))
	for name, c := range map[string]struct {
		serves *httptest.Server
		o      harness.Options
	}{
		"plain":                         {plain, harness.Options{}},
		"hardened":                      {plain, harness.Options{Hardened: true}},
		"TLS":                           {secret, harness.Options{Edit: overTLS}},
		"another port and path, oldest": {plain, harness.Options{Version: harness.OldestVersion, Config: elsewhere}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "hardened" {
				harness.LongT(t)
			}
			if c.o.Config == "" {
				c.o.Config = metricsText(t)
			}
			c.o.Endpoints = []harness.Endpoint{{Addr: c.serves.Listener.Addr().String()}}
			var g *harness.Gateway
			if c.o.Edit == nil {
				g = take(t, c.o).Gateway
			} else {
				g = harness.StartT(t, c.o)
			}
			for _, line := range []string{
				`warmgate_decisions_total\{policy="endpoint_metrics",reason="chosen"\} [1-9]`,
				`warmgate_metrics_scrapes_total\{result="ok"\} [1-9]`,
				`warmgate_metrics_fresh_endpoints\{cluster="llm"\} 1`,
				`warmgate_metrics_lacking_endpoints\{cluster="llm"\} 0`,
			} {
				await(t, "the Prometheus page", regexp.MustCompile(`(?m)^`+line), func() string {
					send(t, g)
					return g.PrometheusT(t)
				})
			}
		})
	}
}

// storeMetrics is the shipped EnvoyFilter, as far as it matters here.
type storeMetrics struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Spec       struct {
		ConfigPatches []struct {
			ApplyTo string `yaml:"applyTo"`
			Match   struct{ Context string }
			Patch   struct {
				Operation string
				Value     struct {
					HealthChecks []map[string]any `yaml:"health_checks"`
				}
			}
		} `yaml:"configPatches"`
	}
}

// healthCheck returns the health check that the shipped EnvoyFilter adds.
func healthCheck(t *testing.T) map[string]any {
	t.Helper()
	var f storeMetrics
	if err := yaml.Unmarshal(harness.ReadT(t, "envoy-config/higress-envoyfilter-store-metrics.yaml"), &f); err != nil {
		t.Fatal(err)
	}
	if f.APIVersion != "networking.istio.io/v1alpha3" || f.Kind != "EnvoyFilter" || len(f.Spec.ConfigPatches) != 1 {
		t.Fatalf("not an EnvoyFilter with one patch: %+v", f)
	}
	patch := f.Spec.ConfigPatches[0]
	if patch.ApplyTo != "CLUSTER" || patch.Match.Context != "GATEWAY" || patch.Patch.Operation != "MERGE" ||
		len(patch.Patch.Value.HealthChecks) != 1 {
		t.Fatalf("not a health check merged into a cluster of the gateway: %+v", patch)
	}
	return patch.Patch.Value.HealthChecks[0]
}

// TestStoreMetrics runs the health check of the shipped EnvoyFilter in stock Envoy, which stores nothing: engines
// answer it with their metrics, to a host that no server refuses, and are healthy.
func TestStoreMetrics(t *testing.T) {
	harness.LongT(t)
	check := healthCheck(t)
	if check["store_metrics"] != true {
		t.Error("metrics are not stored")
	}
	delete(check, "store_metrics")
	var mu sync.Mutex
	requested := map[string]bool{}
	model := engine()
	endpoint := harness.ServeT(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requested[r.Method+" "+r.Host+" "+r.URL.Path] = true
		mu.Unlock()
		model.ServeHTTP(w, r)
	}))
	g := harness.StartT(t, harness.Options{
		Endpoints: []harness.Endpoint{endpoint},
		Edit: harness.OfFile("clusters.yaml", func(doc *yaml.Node) error {
			return harness.Set(doc, "resources[name=llm].health_checks", []any{check})
		}),
	})
	awaitChosen(t, g)
	mu.Lock()
	defer mu.Unlock()
	http := check["http_health_check"].(map[string]any)
	if want := fmt.Sprintf("GET %s %s", http["host"], http["path"]); !requested[want] || http["path"] != "/metrics" {
		t.Errorf("engines got requests for %v, not for %s", requested, want)
	}
}

// stored returns the page of an engine with so many requests in its batch and in its queue, as a health check stores
// it.
func stored(running, waiting int) string {
	page := httptest.NewRecorder()
	engine().ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	gauge := func(name string) *regexp.Regexp { return regexp.MustCompile(`(?m)^(vllm:` + name + `\{.*\}) .*$`) }
	text := gauge("num_requests_running").ReplaceAllString(page.Body.String(), fmt.Sprintf("$1 %d.0", running))
	return gauge("num_requests_waiting").ReplaceAllString(text, fmt.Sprintf("$1 %d.0", waiting))
}

// TestEndpointMetricsInHigress runs the shipped WasmPlugin in the test host of Higress: an engine that others keep busy
// gets nothing while one is idle. Before the first page is read the gateway decides.
func TestEndpointMetricsInHigress(t *testing.T) {
	resource, _ := wasmPlugin(t, "higress-wasmplugin-endpoint-metrics.yaml")
	text, err := resource.PluginConfig()
	if err != nil {
		t.Fatal(err)
	}
	module := harness.ModuleT(t, harness.HostHigress)
	for cluster, page := range map[string]func(running, waiting int) string{
		chatCluster: stored,
		"outbound|80||other-engine.dns": func(_, waiting int) string {
			return fmt.Sprintf("other_engine_queue_length %d\n", waiting)
		},
	} {
		t.Run(cluster, func(t *testing.T) {
			gw := higresshost.Start(t, higresshost.Options{Wasm: module, Config: string(text), Cluster: cluster})
			send := func() *higresshost.Stream {
				return gw.Worker(0).Request(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
			}
			busy, idle := gw.Cluster(cluster).Add("10.0.0.1:8000"), gw.Cluster(cluster).Add("10.0.0.2:8000")
			first := send()
			for i := range 4 {
				busy.Metrics, idle.Metrics = page(16, 8+i), page(0, 0)
				gw.Advance(1100 * time.Millisecond)
			}
			for range 2 { // more would fill the idle one's queue: what is in flight counts at once
				if s := send(); s.Upstream() != idle.Addr {
					t.Errorf("a request went to %s, want %s", s.Upstream(), idle.Addr)
				}
			}
			first.Respond(http.StatusOK, "{}")
			for _, entry := range gw.Logs(higresshost.LogWarn) {
				if strings.Contains(entry.Text, "scrape failed") || strings.Contains(entry.Text, "reports no") {
					t.Errorf("the log misses what the policy does not need: %s", entry)
				}
			}
			for reason, want := range map[string]uint64{"no_metrics": 1, "chosen": 2} {
				if n := gw.Metrics().Counter("warmgate_decisions_total;policy=endpoint_metrics;reason=" + reason); n !=
					want {
					t.Errorf("%d decisions %s, want %d", n, reason, want)
				}
			}
		})
	}
}
