package helm

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestTrafficExtension checks that the plugin can be in a TrafficExtension, and that each value reaches that.
func TestTrafficExtension(t *testing.T) {
	files := slices.Clone(forIstio)
	files[0] = "istio/traffic-extension.yaml"
	same(t, "istio", rendered(t, "gateway: istio\nistio: {trafficExtension: true}"),
		shipped(t, files, example, registry))

	list := rendered(t, "gateway: istio\n"+strings.Replace(image, "tag:", "pullSecret: login, tag:", 1)+
		"config: {lb_policy: endpoint_metrics, lb_config: {max_inflight: 8}}\n"+
		"istio: {trafficExtension: true, namespace: edge, selector: {gateway: llm, istio: null}}\n"+
		"redis: {enabled: true}")
	if all := texts(t, list); strings.Contains(all, "istio-system") || strings.Contains(all, "ingressgateway") {
		t.Errorf("a name is left:\n%s", all)
	}
	plugin := find(t, list, "TrafficExtension", "warmgate")
	want(t, plugin, "edge", "metadata", "namespace")
	want(t, plugin, map[string]any{"gateway": "llm"}, "spec", "selector", "matchLabels")
	want(t, plugin, "oci://hub.llm.test:5000/llm/warmgate-envoy:1.2.3", "spec", "wasm", "url")
	want(t, plugin, "login", "spec", "wasm", "imagePullSecret")
	want(t, plugin, "64MiB", "spec", "wasm", "vmConfig", "env", 0, "value")
	named := 0
	for _, p := range at(t, find(t, list, "EnvoyFilter", "warmgate"), "spec", "configPatches").([]any) {
		named += strings.Count(fmt.Sprint(p), "name:extensions.istio.io/trafficextension/edge.warmgate")
	}
	if named != 2 {
		t.Errorf("%d patches name the TrafficExtension", named)
	}
	if c := parsed(t, pluginOf(t, list)).Match("", vllm, ""); c.Policy != "endpoint_metrics" || c.MaxInflight != 8 ||
		c.Redis.Cluster != "warmgate-redis" || c.Engines.Cluster != "warmgate-metrics" {
		t.Errorf("%+v", c)
	}
}

// TestBodies refuses what needs the bodies of requests with a TrafficExtension, as that cannot have them.
func TestBodies(t *testing.T) {
	c := load(t)
	for part, message := range map[string]string{
		"lb_policy: prefix_cache": "config reads the bodies of requests",
		"lb_policy: token_budget, lb_config: {targets: {'1.1.1.1:1': {}}}": "config reads the bodies of requests",
		"lb_policy: global_least_request, lb_config: {unit: tokens}":       "config reads the bodies of requests",
		"lb_policy: global_least_request":                                  "",
		"lb_policy: endpoint_metrics":                                      "",
	} {
		for on, message := range map[string]string{"true": message, "false": ""} {
			values := "gateway: istio\nistio: {trafficExtension: " + on + "}\nconfig: {" + part + "}"
			_, _, err := template(c, complete(given(t, values)))
			if (err == nil) != (message == "") || err != nil && !strings.Contains(err.Error(), message) {
				t.Errorf("%s\ngot %v\nwant %s", values, err, message)
			}
		}
	}
}

// TestMetricsBy checks the ways to metrics on Envoy Gateway without an EnvoyPatchPolicy.
func TestMetricsBy(t *testing.T) {
	const (
		byRoute = "gateway: envoy-gateway\nenvoyGateway: {metricsBy: HTTPRoute"
		other   = ", namespace: edge, name: public, route: {service: engines, port: 9000, hosts: [a.test]}}"
	)
	files := slices.Clone(forEnvoyGateway)
	files[2] = "envoy-gateway/metrics-route.yaml"
	same(t, "HTTPRoute", rendered(t, byRoute+"}"), shipped(t, files, example, registry,
		"metrics_cluster: warmgate-metrics", "metrics_cluster: httproute/default/warmgate-metrics/rule/0"))
	list := rendered(t, byRoute+other)
	route := find(t, list, "HTTPRoute", "warmgate-metrics")
	want(t, route, "edge", "metadata", "namespace")
	want(t, route, "public", "spec", "parentRefs", 0, "name")
	want(t, route, "engines", "spec", "rules", 0, "backendRefs", 0, "name")
	want(t, route, 9000, "spec", "rules", 0, "backendRefs", 0, "port")
	want(t, route, []any{"warmgate-metrics.invalid"}, "spec", "hostnames") // it has no others' clients
	want(t, find(t, list, "HTTPRoute", "llm"), []any{"a.test"}, "spec", "hostnames")
	for _, kind := range []string{"SecurityPolicy", "BackendTrafficPolicy"} {
		want(t, find(t, list, kind, "warmgate-metrics"), "warmgate-metrics", "spec", "targetRefs", 0, "name")
	}
	const ofRoute = "httproute/edge/warmgate-metrics/rule/0"
	if c := parsed(t, pluginOf(t, list)).Match("", "", ""); c.Engines.Cluster != ofRoute {
		t.Errorf("metrics come from %s", c.Engines.Cluster)
	}
}

// TestListeners checks that each listener which the values name gets the patches, and everything else is there once.
func TestListeners(t *testing.T) {
	const own = "gateway: envoy-gateway\nenvoyGateway: {create: false, route: {hosts: [a.test]}, "
	one, two := rendered(t, own+"listener: web}"), rendered(t, own+"listener: [http, https]}")
	same(t, "a list of one", rendered(t, own+"listener: [web]}"), one)
	patches := find(t, two, "EnvoyPatchPolicy", "warmgate")
	list := at(t, patches, "spec", "jsonPatches").([]any)
	alone := at(t, find(t, one, "EnvoyPatchPolicy", "warmgate"), "spec", "jsonPatches").([]any)
	if len(alone) < 3 || len(list) != 2*len(alone) {
		t.Fatalf("%d patches for one listener, %d for two", len(alone), len(list))
	}
	for i, p := range list {
		name := []string{"default/eg/http", "default/eg/https"}[i%2]
		want(t, patches, name, "spec", "jsonPatches", i, "name")
		if !reflect.DeepEqual(at(t, p, "operation"), at(t, alone[i/2], "operation")) {
			t.Errorf("patch %d is %v, want %v", i, p, alone[i/2])
		}
	}
	at(t, patches, "spec").(map[string]any)["jsonPatches"] = alone
	same(t, "all but these patches", two, one)
	list = at(t, find(t, rendered(t, "gateway: envoy-gateway\nenvoyGateway: {listener: [web]}"), "Gateway", "eg"),
		"spec", "listeners").([]any)
	if len(list) != 1 || at(t, list[0], "name") != "web" {
		t.Errorf("the Gateway has the listeners %v", list)
	}
	for listener, message := range map[string]string{
		"[http, https]": "envoyGateway.listener names 2: the Gateway that the chart makes has one",
		"[]":            "'/envoyGateway/listener': minItems",
		"[a, a]":        "'/envoyGateway/listener': items at 0 and 1 are equal",
		"[a, 'B c']":    "'/envoyGateway/listener/1': 'B c' does not match",
		"default/eg/a":  "'/envoyGateway/listener': 'default/eg/a' does not match",
	} {
		refusal(t, "gateway: envoy-gateway\nenvoyGateway: {listener: "+listener+"}", message)
	}
}

// TestBackends checks that the policy names the backend of the plugin's calls for metrics. The schema of the newest
// release that there is here does not know that field, so it judges the others.
func TestBackends(t *testing.T) {
	const backends = "gateway: envoy-gateway\nenvoyGateway: {metricsBy: backends"
	list := unjudged(t, backends+"}")
	own := find(t, list, "EnvoyExtensionPolicy", "warmgate")
	file := shipped(t, []string{"envoy-gateway/backends.yaml"}, example, registry)[0]
	if !reflect.DeepEqual(own, file) {
		t.Errorf("there is\n%s\nwant\n%s", text(t, own), text(t, file))
	}
	delete(own["spec"].(map[string]any), "backends")
	for _, r := range list {
		validate(t, r)
		if at(t, r, "metadata", "name") == "warmgate-metrics" {
			t.Errorf("there is another way to metrics: %s", text(t, r))
		}
	}
	list = unjudged(t, backends+", namespace: edge, name: public, route: {service: engines, port: 9000}}")
	own = find(t, list, "EnvoyExtensionPolicy", "warmgate")
	want(t, own, map[string]any{"name": "engines", "port": 9000}, "spec", "backends", 0, "backendRef")
	name := at(t, own, "spec", "backends", 0, "name")
	if c := parsed(t, pluginOf(t, list)).Match("", "", ""); c.Engines.Cluster != name {
		t.Errorf("metrics come from %s, the backend is called %s", c.Engines.Cluster, name)
	}
	off := rendered(t, "gateway: envoy-gateway\nmetrics: {enabled: false}")
	if c := parsed(t, pluginOf(t, off)).Match("", "", ""); c.Engines.Cluster != "" {
		t.Errorf("metrics come from %s", c.Engines.Cluster)
	}
}

// unjudged are resources that no schema is compared with.
func unjudged(t *testing.T, values string) []resource {
	t.Helper()
	text, _, err := template(load(t), complete(given(t, values)))
	if err != nil {
		t.Fatal(err)
	}
	return read(t, []byte(text))
}
