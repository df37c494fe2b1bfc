package helm

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
)

// TestWithoutEffect checks that a value which would change nothing is refused by its name: whoever sets it expects
// something of it.
func TestWithoutEffect(t *testing.T) {
	const (
		higress = "gateway: higress\nhigress: {matchRules: [{ingress: [a], config: {lb_policy: prefix_cache}}]}\n"
		istio   = "gateway: istio\n"
		eg      = "gateway: envoy-gateway\n"
		own     = eg + "envoyGateway: {routes: [chat], route: {create: false"
	)
	for values, path := range map[string]string{
		higress + "redis: {host: redis.test}":                                             "redis.host",
		higress + "redis: {port: 6380}":                                                   "redis.port",
		higress + "redis: {password: mine}":                                               "redis.password",
		higress + "metrics: {enabled: false}":                                             "metrics.enabled",
		istio + "redis: {host: redis.test}":                                               "redis.host",
		eg + "redis: {port: 6380}":                                                        "redis.port",
		istio + "redis: {password: mine}":                                                 "redis.password",
		eg + "redis: {username: mine}":                                                    "redis.username",
		eg + "envoyGateway: {metricsBy: backends}\nmetrics: {enabled: false}":             "envoyGateway.metricsBy",
		eg + "envoyGateway: {create: false, route: {hosts: [a.test]}, drainTimeout: 30m}": "envoyGateway.drainTimeout",
		eg + "envoyGateway: {create: false, route: {hosts: [a.test]}, class: gateways}":   "envoyGateway.class",
		istio + "istio: {route: {create: false, hosts: [a.test]}}":                        "istio.route.hosts",
		istio + "istio: {route: {create: false, namespace: apps}}":                        "istio.route.namespace",
		own + ", hosts: [a.test]}}":                                                       "envoyGateway.route.hosts",
		own + ", service: engines}}":                                                      "envoyGateway.route.service",
		own + ", port: 9000}}":                                                            "envoyGateway.route.port",
		own + ", port: 9000}, metricsBy: HTTPRoute}\nmetrics: {enabled: false}":           "envoyGateway.",
		higress + "config: {_rules_: [{_match_route_: [b], lb_policy: prefix_cache}]}":    "config._rules_",
		"gateway: higress\nhigress: {matchRules: [{ingress: [a], config: {lb_policy: prefix_cache, _rules_: [" +
			"{_match_route_: [b], lb_policy: prefix_cache}]}}]}": "higress.matchRules[0].config._rules_",
	} {
		if _, _, err := template(load(t), complete(given(t, values))); err == nil ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "has no effect") {
			t.Errorf("%s\ngot %v\nwant that %s has no effect", values, err, path)
		}
	}
}

// other returns another value for one of the chart's.
func other(path []any, value any) any {
	switch key := path[len(path)-1]; key {
	case "phase":
		return "AUTHN"
	case "metricsBy":
		return "HTTPRoute"
	case "drainTimeout":
		return "700s"
	case "memoryLimit":
		return "64MiB"
	case "config":
		return map[string]any{"lb_policy": "prefix_cache"}
	}
	switch value := value.(type) {
	case bool:
		return !value
	case string:
		return value + "x"
	case []any:
		return []any{"other.test"}
	default:
		return 1234
	}
}

// TestEveryValue changes each value by itself, on each gateway and with more or less that the chart makes: what it
// renders changes, or the value is refused by its name.
func TestEveryValue(t *testing.T) {
	c, checked := load(t), 0
	render := func(values map[string]any) (string, error) {
		text, _, err := template(c, values)
		return text, err
	}
	for _, more := range []string{
		"gateway: higress\nhigress: {matchRules: [{ingress: [a], config: {lb_policy: prefix_cache}}]}",
		"gateway: istio\nistio: {route: {hosts: [a.test]}}",
		"gateway: istio\nredis: {enabled: true}\nistio: {route: {create: false}}",
		"gateway: envoy-gateway",
		"gateway: envoy-gateway\nmetrics: {enabled: false}",
		"gateway: envoy-gateway\nenvoyGateway: {create: false, route: {hosts: [a.test]}}",
		"gateway: envoy-gateway\nenvoyGateway: {routes: [chat], route: {create: false}}\nredis: {enabled: true}",
		"gateway: envoy-gateway\nenvoyGateway: {routes: [a], metricsBy: backends, route: {create: false, service: a}}",
	} {
		all := func() map[string]any { return chartutil.CoalesceTables(complete(given(t, more)), copied(t, c.Values)) }
		before, err := render(all())
		if err != nil {
			t.Fatalf("%s\n%v", more, err)
		}
		for _, path := range paths(all()) {
			values := all()
			value := at(t, values, path...)
			below, _ := value.(map[string]any)
			section, ok := at(t, values, path[:len(path)-1]...).(map[string]any)
			if !ok || len(below) > 0 || path[0] == "gateway" {
				continue
			}
			checked++
			section[path[len(path)-1].(string)] = other(path, value)
			after, err := render(values)
			if err == nil && after == before {
				t.Errorf("%s\n%v has no effect", more, path)
			} else if err != nil && !strings.Contains(err.Error(), path[min(1, len(path)-1)].(string)) {
				t.Errorf("%s\n%v: %v", more, path, err)
			}
		}
	}
	if checked < 250 {
		t.Errorf("%d values", checked)
	}
}

// TestAbsurd checks that values with which a gateway could not work are refused, by a message with what would be
// right.
func TestAbsurd(t *testing.T) {
	const (
		higress = "gateway: higress\nhigress: {"
		hosts   = "gateway: istio\nistio: {route: {hosts: ["
		service = "gateway: istio\nistio: {services: [{name: vllm, namespace: a, port: 1, host: "
		eg      = "gateway: envoy-gateway\nenvoyGateway: {"
		rule    = "gateway: envoy-gateway\nconfig: {_rules_: [{lb_policy: prefix_cache, "
		among   = "config: {" + amongClusters + "}"
		regions = "config: {" + withRegions + "}"
	)
	for values, message := range map[string]string{
		"gateway: istio\nmemoryLimit: 0MiB":  "memoryLimit is 0MiB, want 16MiB to 2GiB",
		"gateway: istio\nmemoryLimit: 1MiB":  "memoryLimit is 1MiB, want 16MiB to 2GiB",
		"gateway: istio\nmemoryLimit: 48KiB": "memoryLimit is 48KiB, want 16MiB to 2GiB",
		"gateway: istio\nmemoryLimit: 48GiB": "memoryLimit is 48GiB, want 16MiB to 2GiB",

		eg + "drainTimeout: 0s}": "drainTimeout is 0s, want 60s or more",
		eg + "drainTimeout: 1s}": "drainTimeout is 1s, want 60s or more",

		// What is for a cluster's name changes the route, so it has to run before plugins that rewrite host or path.
		higress + "allRequests: true}\n" + among:                   "higress.phase to AUTHN",
		higress + "matchRules: [{ingress: [a], " + among + "}]}":   "higress.phase to AUTHN",
		higress + "matchRules: [{ingress: [a], " + regions + "}]}": "higress.phase to AUTHN",

		// The metrics of a service that the values do not name.
		eg + "metricsBy: backends, routes: [chat], route: {create: false}}": "route.service names the service",

		// No names of hosts, of services or of routes.
		hosts + "'https://a.test']}}":          "route/hosts/0",
		hosts + "'a.test:443']}}":              "route/hosts/0",
		eg + "route: {hosts: ['a.test/v1']}}":  "route/hosts/0",
		service + "vllm}]}":                    "a.svc.cluster.local",
		service + "vllm.a}]}":                  "a.svc.cluster.local",
		service + "vllm.a.svc}]}":              "a.svc.cluster.local",
		rule + "_match_route_: [chat]}]}":      "httproute/",
		rule + "_match_route_prefix_: chat}]}": "httproute/",
		higress + "matchRules: [{ingress: ['*'], config: {lb_policy: prefix_cache}}]}":             "/ingress/0",
		higress + "matchRules: [{service: ['vllm *'], config: {lb_policy: prefix_cache}}]}":        "/service/0",
		higress + "matchRules: [{domain: ['https://a.test'], config: {lb_policy: prefix_cache}}]}": "/domain/0",
		higress + "matchRules: [{domain: ['a.test:443'], config: {lb_policy: prefix_cache}}]}":     "/domain/0",
	} {
		refusal(t, values, message)
	}
	for _, values := range []string{ // these are not
		"gateway: istio\nmemoryLimit: 16384KiB",
		"gateway: istio\nmemoryLimit: 2GiB",
		service + "llm.internal}]}",
		hosts + "a.test, '*.b.test']}}",
		eg + "drainTimeout: 1m, route: {hosts: ['*.b.test']}}",
		eg + "metricsBy: HTTPRoute, routes: [chat], route: {create: false, service: vllm}}",
		rule + "_match_route_prefix_: [httproute/a/b/]}]}",
		higress + "phase: AUTHN, priority: 300, allRequests: true}\n" + among,
		higress + "priority: 300, matchRules: [{ingress: [apps/a], " + among + "}]}",
		higress + "matchRules: [{domain: ['*.a.test', 'b.*', '[::1]'], config: {lb_policy: prefix_cache}}]}",
	} {
		if _, _, err := template(load(t), complete(given(t, values))); err != nil {
			t.Errorf("%s\n%v", values, err)
		}
	}
}
