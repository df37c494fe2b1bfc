package envoygateway

import (
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// ofRoute is the cluster of metrics-route.yaml.
const ofRoute = "httproute/default/warmgate-metrics/rule/0"

// byMetrics returns what is installed, without the cluster of metrics.yaml: the plugin goes by metrics that it scrapes
// through another cluster.
func byMetrics(t *testing.T, cluster string) []resource {
	t.Helper()
	list, _ := installed(t)
	patched := len(list)
	list = slices.DeleteFunc(list, func(r resource) bool {
		return r["kind"] == "EnvoyPatchPolicy" && at(t, r, "metadata", "name") == "warmgate-metrics"
	})
	if len(list) != patched-1 {
		t.Fatal("metrics.yaml is not installed")
	}
	config := configOf(t, list)
	config["lb_policy"] = "endpoint_metrics"
	set(t, config, cluster, "lb_config", "envoy", "metrics_cluster")
	return list
}

// TestMetricsByRoute does what TestMetrics does, with metrics-route.yaml in the place of metrics.yaml. Clients cannot
// use the route.
func TestMetricsByRoute(t *testing.T) {
	list := append(byMetrics(t, ofRoute), read(t, "metrics-route.yaml")...)
	lab.OnVersions(t, func(t *testing.T, version string) {
		gateway := controlled(t, version, list)
		gateway.Scraped(t)
		route := at(t, read(t, "metrics-route.yaml")[0], "spec", "hostnames", 0).(string)
		a := harness.Send(t, nil, http.MethodGet, gateway.URL+"/metrics", "", "host: "+route)
		if a.Status != http.StatusForbidden {
			t.Errorf("a client that asks for metrics is answered %d", a.Status)
		}
	})
}

// TestBackend does it with the backend in backends.yaml, as Envoy Gateway 1.10 has it: 1.9 takes its settings for the
// backend of a SecurityPolicy, and makes a cluster of them by the same code; a patch writes the name of that into the
// metadata of the route, as 1.10 does.
func TestBackend(t *testing.T) {
	backend := at(t, read(t, "backends.yaml")[0], "spec", "backends", 0)
	alias := at(t, backend, "name").(string)
	list := byMetrics(t, alias)
	const name = "other"
	route := read(t, "metrics-route.yaml")[0]
	set(t, route, name, "metadata", "name")
	list = append(list, route, resource{
		"apiVersion": "gateway.envoyproxy.io/v1alpha1", "kind": "SecurityPolicy",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec": map[string]any{
			"targetRefs": []any{map[string]any{
				"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": name,
			}},
			"extAuth": map[string]any{"http": map[string]any{
				"backendRefs": []any{onMachine}, "backendSettings": at(t, backend, "backendSettings"),
			}},
		},
	})
	const cluster = "/default/" + name + "/extauth/0" // of a control plane that reads files
	list = append(list, parse(t, `
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyPatchPolicy
metadata: {name: binding, namespace: default}
spec:
  targetRef: {group: gateway.networking.k8s.io, kind: Gateway, name: eg}
  type: JSONPatch
  jsonPatches:
  - type: type.googleapis.com/envoy.config.route.v3.RouteConfiguration
    name: `+listener+`
    operation:
      op: add
      jsonPath: "..routes[?(@.name=='httproute/default/llm/rule/0/match/0/*')].metadata.filter_metadata"
      path: gateway.envoyproxy.io~1extension-backends
      value: {`+alias+`: `+cluster+`}
`)...)
	lab.OnVersions(t, func(t *testing.T, version string) { controlled(t, version, list).Scraped(t) })
}

// TestBackends compares backends.yaml with warmgate.yaml, from which it differs in the backend alone, and has the
// schema of Envoy Gateway 1.9 judge it: that one knows all but backends.
func TestBackends(t *testing.T) {
	have, want := read(t, "backends.yaml")[0], find(t, read(t, "warmgate.yaml"), "EnvoyExtensionPolicy")
	if out := judged(t, have); !strings.Contains(out, "backends") {
		t.Errorf("egctl knows backends: %s", out)
	}
	delete(have["spec"].(map[string]any), "backends")
	if out := judged(t, have); !strings.Contains(out, "OK") {
		t.Error(out)
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("there is %v, want %v", have, want)
	}
}

// judged returns what Envoy Gateway says of a resource by its schema.
func judged(t *testing.T, r resource) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "resource.yaml")
	write(t, file, []resource{r})
	return egctl(t, "x", "validate", "-f", file)
}
