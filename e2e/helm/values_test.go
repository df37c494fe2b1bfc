package helm

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/wasmplugin"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

const (
	image  = "image: {registry: 'hub.llm.test:5000/llm', tag: 1.2.3}\nmemoryLimit: 64MiB\n"
	policy = "config: {lb_type: endpoint, lb_policy: prefix_cache, lb_config: {max_inflight: 8}}\n"
)

// TestHigressValues checks that each value reaches the resource, and that the plugin takes its configuration.
func TestHigressValues(t *testing.T) {
	parse := func(values string) (*wasmplugin.Resource, *config.Set) {
		t.Helper()
		list := rendered(t, "gateway: higress\n"+values)
		r, err := wasmplugin.Parse(text(t, list[0]))
		if err != nil || len(list) != 1 {
			t.Fatal(err, len(list))
		}
		raw, err := r.PluginConfig()
		if err != nil {
			t.Fatal(err)
		}
		set, err := config.Parse(raw, config.Higress)
		if err != nil {
			t.Fatal(err)
		}
		return r, set
	}
	r, set := parse(strings.Replace(image, "tag:", "pullSecret: login, tag:", 1) + policy +
		"higress: {namespace: gateways, phase: AUTHN, priority: 300, matchRules: [" +
		"{ingress: [chat], config: {lb_policy: global_least_request, lb_config: {unit: tokens}}}," +
		"{domain: [a.example.com], configDisable: true, config: {enabled: false}}]}\n")
	if r.Metadata.Namespace != "gateways" || r.Metadata.Name != "warmgate-0.1.0" ||
		r.Spec.URL != "oci://hub.llm.test:5000/llm/warmgate-higress:1.2.3" || r.Spec.Phase != "AUTHN" ||
		*r.Spec.Priority != 300 || r.Spec.ImagePullSecret != "login" || r.Spec.VMConfig.Env[0].Value != "64MiB" {
		t.Errorf("got %+v", r)
	}
	if c := set.Match("other", "llm", ""); c.Policy != "prefix_cache" || c.MaxInflight != 8 {
		t.Errorf("for all requests: %+v", c)
	}
	if c := set.Match("chat", "llm", ""); c.Policy != "global_least_request" || c.Unit != lb.Tokens {
		t.Errorf("for the route: %+v", c)
	}
	if c := set.Match("other", "llm", "a.example.com"); !c.Enabled {
		t.Error("a rule that is switched off matches")
	}
	_, set = parse("higress: {matchRules: [{ingress: [chat], config: {lb_policy: prefix_cache}}]}")
	if c := set.Match("other", "llm", ""); c != nil {
		t.Errorf("with rules alone, other requests have %+v", c)
	}
	if c := set.Match("chat", "llm", ""); c == nil || c.Policy != "prefix_cache" {
		t.Errorf("with rules alone: %+v", c)
	}
}

// TestIstioValues checks that each value reaches all resources that name it, and that the plugin takes its
// configuration.
func TestIstioValues(t *testing.T) {
	list := rendered(t, "gateway: istio\n"+image+policy+"redis: {enabled: true}\n"+
		"istio: {namespace: edge, selector: {gateway: llm, istio: null}, "+
		"route: {namespace: apps, hosts: [a.example.com]}, "+
		"services: [{name: engines, namespace: models, port: 9000}, "+
		"{name: remote, namespace: models, host: llm.example.com, port: 443}]}")
	for _, old := range []string{"istio-system", "ingressgateway", "vllm", "namespace: default\n"} {
		if all := texts(t, list); strings.Contains(all, old) {
			t.Errorf("%s is left:\n%s", old, all)
		}
	}
	plugin := find(t, list, "EnvoyFilter", "warmgate")
	for _, name := range []string{
		"warmgate", "warmgate-metrics", "warmgate-redis", "warmgate-engines", "warmgate-remote",
	} {
		filter := find(t, list, "EnvoyFilter", name)
		want(t, filter, "edge", "metadata", "namespace")
		want(t, filter, map[string]any{"gateway": "llm"}, "spec", "workloadSelector", "labels")
	}
	vm := []any{"spec", "configPatches", 0, "patch", "value", "typed_config", "config", "vm_config"}
	want(t, plugin, "oci://hub.llm.test:5000/llm/warmgate-envoy:1.2.3", append(vm, "code", "remote", "http_uri",
		"uri")...)
	want(t, plugin, "64MiB", append(vm, "environment_variables", "key_values", "GOMEMLIMIT")...)
	for name, host := range map[string]string{
		"engines": "engines.models.svc.cluster.local", "remote": "llm.example.com",
	} {
		port := map[string]int{"engines": 9000, "remote": 443}[name]
		cluster := map[string]any{"service": host, "portNumber": port}
		want(t, find(t, list, "EnvoyFilter", "warmgate-"+name), cluster, "spec", "configPatches", 0, "match", "cluster")
		limits := find(t, list, "DestinationRule", name)
		want(t, limits, "models", "metadata", "namespace")
		want(t, limits, host, "spec", "host")
	}
	gateway, route := find(t, list, "Gateway", "llm"), find(t, list, "VirtualService", "llm")
	want(t, gateway, map[string]any{"gateway": "llm"}, "spec", "selector")
	want(t, gateway, []any{"a.example.com"}, "spec", "servers", 0, "hosts")
	want(t, route, []any{"a.example.com"}, "spec", "hosts")
	want(t, route, "apps", "metadata", "namespace")
	destination := []any{"spec", "http", 0, "route", 0, "destination"}
	want(t, route, "engines.models.svc.cluster.local", append(destination, "host")...)
	want(t, route, 9000, append(destination, "port", "number")...)
	set := parsed(t, pluginOf(t, list))
	for _, cluster := range []string{
		"outbound|9000||engines.models.svc.cluster.local", "outbound|443|v1|llm.example.com",
	} {
		if c := set.Match("", cluster, ""); c == nil || c.Policy != "prefix_cache" || c.MaxInflight != 8 ||
			c.EnvoyCfg.AdminCluster != "prometheus_stats" {
			t.Errorf("%s: %+v", cluster, c)
		}
	}
	for _, cluster := range []string{
		"outbound|9001||engines.models.svc.cluster.local", "outbound|443||shop.default.svc.cluster.local",
	} {
		if c := set.Match("", cluster, "a.example.com"); c != nil {
			t.Errorf("%s, which nobody has named, has %+v", cluster, c)
		}
	}
}

// TestEnvoyGatewayValues checks that each value reaches all resources that name it, and that the plugin takes its
// configuration.
func TestEnvoyGatewayValues(t *testing.T) {
	list := rendered(t, "gateway: envoy-gateway\n"+strings.Replace(image, "tag:", "pullSecret: login, tag:", 1)+policy+
		"redis: {enabled: true}\n"+
		"envoyGateway: {namespace: edge, name: public, listener: web, class: gateways, routes: [chat, code], "+
		"drainTimeout: 1h10m, route: {service: engines, port: 9000, hosts: [a.example.com]}}")
	for _, old := range []string{"default/eg", "name: eg\n", "namespace: default\n", "llm\n"} {
		if all := texts(t, list); strings.Contains(all, old) {
			t.Errorf("%s is left:\n%s", old, all)
		}
	}
	want(t, find(t, list, "GatewayClass", "gateways"), "edge", "spec", "parametersRef", "namespace")
	want(t, find(t, list, "EnvoyProxy", "warmgate"), "1h10m", "spec", "shutdown", "drainTimeout")
	gateway := find(t, list, "Gateway", "public")
	want(t, gateway, "web", "spec", "listeners", 0, "name")
	want(t, gateway, "gateways", "spec", "gatewayClassName")
	route := find(t, list, "HTTPRoute", "chat")
	want(t, route, "public", "spec", "parentRefs", 0, "name")
	want(t, route, "engines", "spec", "rules", 0, "backendRefs", 0, "name")
	want(t, route, 9000, "spec", "rules", 0, "backendRefs", 0, "port")
	want(t, route, []any{"a.example.com"}, "spec", "hostnames")
	want(t, find(t, list, "ClientTrafficPolicy", "warmgate"), "public", "spec", "targetRefs", 0, "name")
	for _, kind := range []string{"BackendTrafficPolicy", "EnvoyExtensionPolicy"} {
		policy := find(t, list, kind, "warmgate")
		for i, name := range []string{"chat", "code"} {
			want(t, policy, "HTTPRoute", "spec", "targetRefs", i, "kind")
			want(t, policy, name, "spec", "targetRefs", i, "name")
		}
	}
	limits := 0
	for _, name := range []string{"warmgate", "warmgate-metrics", "warmgate-redis"} {
		patches := find(t, list, "EnvoyPatchPolicy", name)
		want(t, patches, "public", "spec", "targetRef", "name")
		for i, p := range at(t, patches, "spec", "jsonPatches").([]any) {
			if name == "warmgate" {
				want(t, patches, "edge/public/web", "spec", "jsonPatches", i, "name")
			}
			if at(t, p, "operation", "path") == "vm_config/environment_variables" {
				limits++
				want(t, patches, "64MiB", "spec", "jsonPatches", i, "operation", "value", "key_values", "GOMEMLIMIT")
			}
		}
	}
	if limits != 1 {
		t.Errorf("%d limits of memory", limits)
	}
	code := map[string]any{
		"url": "hub.llm.test:5000/llm/warmgate-envoy:1.2.3", "pullSecretRef": map[string]any{"name": "login"},
	}
	want(t, find(t, list, "EnvoyExtensionPolicy", "warmgate"), code, "spec", "wasm", 0, "code", "image")
	if c := parsed(t, pluginOf(t, list)).Match("", "", ""); c.Policy != "prefix_cache" || c.MaxInflight != 8 ||
		c.EnvoyCfg.AdminCluster != "prometheus_stats" {
		t.Errorf("%+v", c)
	}
}

// TestOwnSource checks that a configuration with a source of endpoints of its own is left with that alone.
func TestOwnSource(t *testing.T) {
	for envoy, admin := range map[string]string{"endpoints: ['10.0.0.1:80']": "", "admin_cluster: own": "own"} {
		list := rendered(t, "gateway: istio\nconfig: {lb_policy: prefix_cache, lb_config: {envoy: {"+envoy+"}}}")
		if c := parsed(t, pluginOf(t, list)).Match("", vllm, ""); c.EnvoyCfg.AdminCluster != admin {
			t.Errorf("%s: the admin cluster is %q", envoy, c.EnvoyCfg.AdminCluster)
		}
	}
}

// TestWithoutGateway checks that what the user has already can be left out.
func TestWithoutGateway(t *testing.T) {
	const own = "gateway: envoy-gateway\nenvoyGateway: {create: false, routes: [llm], route: {create: false}}"
	same(t, "envoy-gateway", rendered(t, own), shipped(t, []string{
		"envoy-gateway/warmgate.yaml", "envoy-gateway/metrics.yaml",
	}, example, registry))
	list := rendered(t, "gateway: envoy-gateway\nenvoyGateway: {create: false, route: {hosts: [a.test]}}")
	want(t, find(t, list, "HTTPRoute", "llm"), []any{"a.test"}, "spec", "hostnames")
	list = rendered(t, "gateway: envoy-gateway\nenvoyGateway: {clientTrafficPolicy: false}")
	all := rendered(t, "gateway: envoy-gateway")
	same(t, "a policy of one's own", append(list, find(t, all, "ClientTrafficPolicy", "warmgate")), all)
	list = rendered(t, "gateway: istio\nmetrics: {enabled: false}\n"+
		"istio: {destinationRules: false, route: {create: false}}")
	if len(list) != 2 || find(t, list, "EnvoyFilter", "warmgate") == nil ||
		find(t, list, "EnvoyFilter", "warmgate-vllm") == nil {
		t.Errorf("there are\n%s", texts(t, list))
	}
	if c := parsed(t, pluginOf(t, list)).Match("", vllm, ""); c.Engines.Cluster != "" {
		t.Errorf("a cluster is named that is not there: %+v", c.Engines)
	}
}
