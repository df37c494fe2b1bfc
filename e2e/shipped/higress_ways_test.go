package shipped

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
	"github.com/warmgate/warmgate/e2e/wasmplugin"
	"github.com/warmgate/warmgate/plugin/config"
)

// whole is the resource for the plugin under its own name, patch what puts it in ai-load-balancer's place.
const (
	whole = "deploy/higress/warmgate.yaml"
	patch = "deploy/higress/ai-load-balancer.yaml"
)

// resource reads a WasmPlugin, and what Higress makes of it for the plugin.
func resource(t *testing.T, text []byte) (r *wasmplugin.Resource, raw []byte) {
	t.Helper()
	r, err := wasmplugin.Parse(harness.Own(text))
	if err == nil {
		raw, err = r.PluginConfig()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, raw
}

// TestConsoleShowsWasmPlugins checks of each shipped resource that the console shows it, that it bounds the heap of the
// VMs, and that all name the same image.
func TestConsoleShowsWasmPlugins(t *testing.T) {
	files, err := filepath.Glob(harness.PathT(t, "envoy-config/higress-wasmplugin-*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no WasmPlugin is shipped: %v", err)
	}
	names := []string{whole}
	for _, file := range files {
		names = append(names, "envoy-config/"+filepath.Base(file))
	}
	memory := regexp.MustCompile(`^\d+[KMG]iB$`) // as Go's runtime reads it
	first, _ := resource(t, harness.ReadT(t, whole))
	for _, name := range names {
		r, raw := resource(t, harness.ReadT(t, name))
		if err := r.Shown(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		env := r.Spec.VMConfig.Env
		if len(env) != 1 || env[0].Name != "GOMEMLIMIT" || !memory.MatchString(env[0].Value) {
			t.Errorf("%s: environment %v", name, env)
		}
		if r.Spec.URL != first.Spec.URL || r.Metadata.Name != first.Metadata.Name {
			t.Errorf("%s: %s from %s, want %s from %s", name, r.Metadata.Name, r.Spec.URL, first.Metadata.Name,
				first.Spec.URL)
		}
		set, err := config.Parse(raw, config.Higress)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if warnings := set.Warnings(); len(warnings) > 0 {
			t.Errorf("%s: %q", name, warnings)
		}
	}
}

// answers sends a request to the test host on a route, and returns where it went and what the access log has of it.
func answers(gw *higresshost.Gateway, route, cluster, host string) (upstream, note string) {
	s := gw.Worker(0).NewStream().To(route, cluster)
	s.Send(http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`,
		":authority", host)
	upstream = s.Upstream()
	s.Respond(http.StatusOK, "{}")
	return upstream, s.FilterState["warmgate"]
}

// TestOwnPluginInHigress runs the resource for the plugin under its own name in the test host, with a request for each
// of its rules.
func TestOwnPluginInHigress(t *testing.T) {
	_, raw := resource(t, harness.ReadT(t, whole))
	const llm, embeddings = "outbound|8000||vllm.default.svc.cluster.local", "outbound|443||embeddings.dns"
	gw := higresshost.Start(t, higresshost.Options{Wasm: harness.ModuleT(t, harness.HostHigress), Config: string(raw)})
	for _, cluster := range []string{llm, embeddings} {
		gw.Cluster(cluster).Add("10.0.0.1:8000")
		gw.Cluster(cluster).Add("10.0.0.2:8000")
	}
	gw.Advance(2 * time.Second)
	for _, c := range []struct{ name, route, cluster, host, counted string }{
		{"AI route", "ai-route-chat.internal", llm, "api.example.com", "policy=prefix_cache;reason=chosen"},
		{
			"fallback of the AI route", "ai-route-chat.fallback.internal", llm, "api.example.com",
			"policy=global_least_request;reason=chosen",
		},
		{"another AI route", "ai-route-other.internal", llm, "api.example.com", "policy=none;reason=no_rule"},
		{"route", "completions", llm, "api.example.com", "policy=global_least_request;reason=chosen"},
		{"service", "completions", embeddings, "api.example.com", "policy=none;reason=disabled"},
		{"domain", "other", llm, "staging.example.com", "policy=global_least_request;reason=shadow"},
	} {
		stat := "warmgate_decisions_total;" + c.counted
		before := gw.Metrics().Counter(stat)
		answers(gw, c.route, c.cluster, c.host)
		if n := gw.Metrics().Counter(stat) - before; n != 1 {
			t.Errorf("%s: counted %d times as %s: %v", c.name, n, c.counted, gw.Metrics().Names())
		}
	}
}

// builtIn is the resource that Higress's console makes when ai-load-balancer is configured for a route.
const builtIn = `
apiVersion: extensions.higress.io/v1alpha1
kind: WasmPlugin
metadata:
  name: ai-load-balancer-2.0.3
  namespace: higress-system
  labels:
    higress.io/resource-definer: higress
    higress.io/wasm-plugin-built-in: "true"
    higress.io/wasm-plugin-category: ai
    higress.io/wasm-plugin-name: ai-load-balancer
    higress.io/wasm-plugin-version: 2.0.3
  annotations:
    higress.io/wasm-plugin-title: AI LOAD BALANCER
spec:
  defaultConfigDisable: true
  failStrategy: FAIL_OPEN
  imagePullPolicy: UNSPECIFIED_POLICY
  matchRules:
  - config:
      lb_policy: global_least_request
      lb_config:
        serviceFQDN: redis.static
        servicePort: 6379
        username: default
        password: '123456'
    configDisable: false
    ingress:
    - ai-route-chat.internal
  phase: UNSPECIFIED_PHASE
  priority: 50
  url: oci://registry.example.com/plugins/ai-load-balancer:2.0.0
`

// merged applies a JSON merge patch, as kubectl patch --type merge does.
func merged(into, patch map[string]any) map[string]any {
	out := maps.Clone(into)
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(out, key)
		case map[string]any:
			old, _ := out[key].(map[string]any)
			out[key] = merged(old, value)
		default:
			out[key] = value
		}
	}
	return out
}

// TestBuiltInPluginInHigress replaces the module of ai-load-balancer by Warmgate's, as the patch does, and runs its
// unchanged configuration. Without its Redis, the gateway counts for itself.
func TestBuiltInPluginInHigress(t *testing.T) {
	var resourceOf, patchOf map[string]any
	for text, into := range map[string]*map[string]any{
		builtIn: &resourceOf, string(harness.ReadT(t, patch)): &patchOf,
	} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	text, err := yaml.Marshal(merged(resourceOf, patchOf))
	if err != nil {
		t.Fatal(err)
	}
	r, raw := resource(t, text)
	own, _ := resource(t, harness.ReadT(t, whole))
	if r.Spec.URL != own.Spec.URL || r.Spec.ImagePullPolicy != own.Spec.ImagePullPolicy {
		t.Errorf("the patch takes %s, %s", r.Spec.URL, r.Spec.ImagePullPolicy)
	}
	if err := r.Shown(); err != nil {
		t.Error(err)
	}
	before, unchanged := resource(t, []byte(builtIn))
	if !bytes.Equal(raw, unchanged) || *r.Spec.Priority != *before.Spec.Priority {
		t.Errorf("the patch changes more than the module: %s", raw)
	}
	gw := higresshost.Start(t, higresshost.Options{Wasm: harness.ModuleT(t, harness.HostHigress), Config: string(raw)})
	gw.Cluster("llm").Add("10.0.0.1:8000")
	for i, route := range []string{"ai-route-chat.internal", "other"} {
		want := []string{"host=10.0.0.1:8000 reason=chosen", "reason=no_rule"}[i]
		if upstream, note := answers(gw, route, "llm", "api.example.com"); !strings.Contains(note+" ", want+" ") {
			t.Errorf("%s: a request went to %q with %q, want %s", route, upstream, note, want)
		}
	}
}

// strictly decodes YAML into a value that has a field for everything that may be there.
func strictly(t *testing.T, name string, into any) {
	t.Helper()
	d := yaml.NewDecoder(bytes.NewReader(harness.ReadT(t, name)))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// object is what each resource of Kubernetes has.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name, Namespace string }
}

// TestServiceSources checks the McpBridge by what Higress makes of its sources, and that the names and ports agree with
// those in the other resources.
func TestServiceSources(t *testing.T) {
	var bridge struct {
		object `yaml:",inline"`
		Spec   struct {
			Registries []struct {
				Name, Type, Domain, Protocol string
				Port                         int
			}
		}
	}
	strictly(t, "deploy/higress/mcpbridge.yaml", &bridge)
	if bridge.APIVersion != "networking.higress.io/v1" || bridge.Kind != "McpBridge" ||
		bridge.Metadata.Name != "default" || bridge.Metadata.Namespace != "higress-system" {
		t.Errorf("got %+v: Higress reads the one McpBridge default", bridge.object)
	}
	var service struct {
		object `yaml:",inline"`
		Spec   struct {
			ClusterIP string `yaml:"clusterIP"`
			Selector  map[string]string
			Ports     []struct {
				Name string
				Port int
			}
		}
	}
	strictly(t, "deploy/higress/headless-service.yaml", &service)
	if service.Kind != "Service" || service.Spec.ClusterIP != "None" || len(service.Spec.Selector) == 0 {
		t.Errorf("not a headless service: %+v", service)
	}
	_, set := wasmPlugin(t, "higress-wasmplugin-redis.yaml")
	redis := chat(t, set).Redis
	known := map[string]bool{}
	for _, r := range bridge.Spec.Registries {
		host := fmt.Sprintf("outbound|%d||%s.%s", r.Port, r.Name, r.Type)
		known[host] = true
		switch r.Type {
		case "static":
			for _, addr := range strings.Split(r.Domain, ",") {
				if _, err := netip.ParseAddrPort(addr); err != nil {
					t.Errorf("%s: %v", r.Name, err)
				}
			}
		case "dns":
			m := service.Metadata
			if want := m.Name + "." + m.Namespace + ".svc.cluster.local"; r.Domain != want ||
				r.Port != service.Spec.Ports[0].Port {
				t.Errorf("%s is %s:%d, want the headless service %s", r.Name, r.Domain, r.Port, want)
			}
		default:
			t.Errorf("%s: type %s", r.Name, r.Type)
		}
	}
	if !known[redis.HigressCluster()] {
		t.Errorf("the plugin's Redis is %s, the sources are %v", redis.HigressCluster(),
			slices.Sorted(maps.Keys(known)))
	}
}

// TestHelmValues checks the format of the access log: JSON with the plugin's decision in it, in the place of Higress's
// own, which a value of the chart replaces as a whole.
func TestHelmValues(t *testing.T) {
	doc := parse(t, "deploy/higress/values.yaml")
	format := find[string](t, doc, "higress-core.meshConfig.accessLogFormat")
	var fields map[string]string
	if err := json.Unmarshal([]byte(format), &fields); err != nil || !strings.HasSuffix(format, "}\n") {
		t.Fatalf("%q: %v", format, err)
	}
	if fields["warmgate"] != "%FILTER_STATE(wasm.warmgate:PLAIN)%" || fields["ai_log"] == "" || len(fields) < 20 {
		t.Errorf("got %q", fields)
	}
}
