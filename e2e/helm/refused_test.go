package helm

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
	lbpolicy "github.com/warmgate/warmgate/lb/policy"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/config/configtest"
)

// TestRefused checks that a mistake is refused before anything is installed, by a message that says where and why.
func TestRefused(t *testing.T) {
	const higress = "gateway: higress\nconfig: {lb_policy: prefix_cache}\n"
	c := load(t)
	for values, message := range map[string]string{
		"{}":             "'/gateway': value must be one of 'higress', 'istio', 'envoy-gateway'",
		"gateway: nginx": "'/gateway': value must be one of",
		"gatway: istio":  "'gatway' not allowed",

		"gateway: istio\nmemoryLimit: 48MB":                               "'/memoryLimit': '48MB' does not match",
		"gateway: istio\nimage: {registry: 'oci://registry.example.com'}": "'/image/registry': 'oci://registry",
		"gateway: istio\nimage: {tag: 'a b'}":                             "'/image/tag': 'a b' does not match",
		"gateway: istio\nredis: {port: 0}":                                "'/redis/port': minimum",
		"gateway: istio\nmetrics: true":                                   "'/metrics': got boolean, want object",
		"gateway: istio\nistio: {services: []}":                           "'/istio/services': minItems",
		"gateway: istio\nistio: {services: [{name: a, namespace: b}]}":    "missing property 'port'",
		"gateway: istio\nistio: {route: {hosts: a}}":                      "'/istio/route/hosts': got string, want",
		"gateway: envoy-gateway\nenvoyGateway: {route: {port: 70000}}":    "'/envoyGateway/route/port': maximum",
		"gateway: envoy-gateway\nenvoyGateway: {name: 'A b'}":             "'/envoyGateway/name': 'A b' does not",
		"gateway: envoy-gateway\nenvoyGateway: {drainTimeout: 660}":       "drainTimeout': got number, want string",
		"gateway: envoy-gateway\nenvoyGateway: {drainTimeout: 500ms}":     "drainTimeout': '500ms' does not match",
		"gateway: envoy-gateway\nenvoyGateway: {metricsBy: magic}":        "'/envoyGateway/metricsBy': value must be",
		"gateway: envoy-gateway\nconfig: text":                            "'/config': got string, want object",
		"gateway: istio\nconfig: {lb_polcy: prefix_cache}":                "'lb_polcy' not allowed",
		"gateway: istio\nconfig: {lb_policy: round_robin}":                "'/config/lb_policy': value must be one of",
		"gateway: istio\nconfig: {_rules_: [{_match_route_: 5}]}":         "'/config/_rules_/0/_match_route_': got",
		"gateway: istio\nconfig: {lb_policy: prefix_cache, lb_config: {a: 1}}": "'/config/lb_config': additional " +
			"properties 'a' not allowed",
		"gateway: istio\nconfig: {lb_policy: prefix_cache, lb_config: {max_inflight: -1}}": "max_inflight': " +
			"minimum: got -1, want 0",

		"gateway: istio\nconfig: {lb_policy: prefix_cache, _rules_: null}": "'/config/_rules_': got null",
		"gateway: istio\nconfig: {_rules_: [{_match_service_: null, lb_policy: prefix_cache}]}": "_match_service_': " +
			"got null",
		higress + "higress: {matchRules: [{ingress: [a], domain: null, config: {}}]}": "domain': got null, want array",

		higress + "higress: {priority: high}":                           "'/higress/priority': got string, want",
		higress + "higress: {phase: LATE}":                              "'/higress/phase': value must be one of",
		higress + "higress: {matchRules: [{ingress: [a]}]}":             "missing property 'config'",
		higress + "higress: {matchRules: [{config: {}}]}":               "'/higress/matchRules/0'",
		higress + "higress: {matchRules: [{routes: [a], config: {}}]}":  "'routes' not allowed",
		higress + "higress: {matchRules: [{ingress: [a], config: {}}]}": "matchRules[0].config has no lb_policy",

		"gateway: higress":                                          "higress.matchRules names the routes",
		higress + "redis: {enabled: true}":                          "redis.enabled is for istio and envoy-gateway",
		"gateway: istio\nimage: {pullSecret: login}":                "needs istio.trafficExtension",
		"gateway: istio\nconfig: {lb_type: endpoint}":               "config has no lb_policy",
		"gateway: istio\nconfig: {_rules_: [{_match_route_: [a]}]}": "config._rules_[0] has no lb_policy",
		"gateway: istio\nistio: {services: [{name: a, namespace: b, port: 1}, " +
			"{name: a, namespace: c, port: 1}]}": "istio.services has two of the name a",
		"gateway: istio\nhigress: {matchRules: [{ingress: [a], config: {enabled: false}}]}": "on istio, write " +
			"rules into config._rules_",
	} {
		if _, _, err := template(c, complete(given(t, values))); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s\ngot %v\nwant %s", values, err, message)
		}
	}
}

// TestPlaceholders checks that no example of the documents, and no value that was not given, takes the place of a
// user's own: a gateway that cannot fetch its module, a secret that everybody knows, a route for every host.
func TestPlaceholders(t *testing.T) {
	const (
		own   = "image: {registry: 'hub.llm.test/llm'}\n"
		hosts = "istio: {route: {hosts: [a.test]}}\n"
	)
	c := load(t)
	for values, message := range map[string]string{
		"gateway: istio\n" + hosts:                            "image.registry names the registry",
		"gateway: envoy-gateway":                              "image.registry names the registry",
		"gateway: higress\nconfig: {lb_policy: prefix_cache}": "image.registry names the registry",

		"gateway: istio\nimage: {registry: registry.example.com/warmgate}\n" + hosts: "registry.example.com/warmgate " +
			"is an example",
		"gateway: envoy-gateway\nimage: {registry: 'example.com:5000/a'}": "is an example",
		"gateway: envoy-gateway\nimage: {registry: hub.example/a}":        "is an example",
		"gateway: envoy-gateway\nimage: {registry: hub.example.org}":      "is an example",

		// The same file of values on another gateway.
		"gateway: higress\n" + own + "config: {lb_policy: prefix_cache}": "config is for all requests of the gateway",
		"gateway: higress\n" + own + "config: {lb_policy: prefix_cache}\nhigress: {matchRules: [{ingress: [a], " +
			"config: {lb_policy: prefix_cache}}]}": "config is for all requests of the gateway",
		"gateway: higress\n" + own + "higress: {allRequests: true, matchRules: [{ingress: [a], config: {lb_policy: " +
			"prefix_cache}}]}": "higress.allRequests to say so, and only then",
		"gateway: envoy-gateway\n" + own + hosts: "istio.route is for istio: it has no effect on envoy-gateway",
		"gateway: istio\n" + own + hosts + "envoyGateway: {name: a}": "envoyGateway.name is for envoy-gateway: it " +
			"has no effect on istio",
		"gateway: istio\n" + own + hosts + "higress: {phase: AUTHN}": "higress.phase is for higress: it has no effect",

		"gateway: istio\n" + own: "istio.route.hosts has the host names",
		"gateway: envoy-gateway\n" + own + "envoyGateway: {route: {create: false}}": "envoyGateway.routes names the " +
			"HTTPRoutes",
		"gateway: envoy-gateway\n" + own + "envoyGateway: {create: false}": "route.hosts has the host names",
		"gateway: envoy-gateway\n" + own + "envoyGateway: {create: false, routes: [chat]}": "route.hosts has the " +
			"host names",

		"gateway: istio\n" + own + hosts + "redis: {enabled: true, password: change-me}": "\"change-me\"",
		"gateway: higress\n" + own + "config: {lb_policy: prefix_cache, lb_config: {serviceFQDN: redis.static, " +
			"password: change-me}}": "\"change-me\"",
		"gateway: higress\n" + own + "higress: {matchRules: [{ingress: [a], config: {lb_policy: prefix_cache, " +
			"lb_config: {regions: {secret: replace this by 32 random bytes}}}}]}": "\"replace this by\"",
	} {
		if _, _, err := template(c, given(t, values)); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s\ngot %v\nwant %s", values, err, message)
		}
	}
	for _, registry := range []string{"my-example.com", "hub.examples.com/a", "10.0.0.1:5000", "a/example.com"} {
		if _, _, err := template(c, given(t, "gateway: envoy-gateway\nimage: {registry: '"+registry+"'}")); err != nil {
			t.Errorf("%s: %v", registry, err)
		}
	}
}

// TestDoNotFit checks that values which the schema allows one by one are refused together where the plugin would refuse
// them: in the configuration for all requests, and in a rule.
func TestDoNotFit(t *testing.T) {
	c := load(t)
	for part, message := range map[string]string{
		"lb_policy: prefix_cache, lb_config: {serviceFQDN: redis.static}": "lb_config.serviceFQDN is for higress",
		"lb_policy: prefix_cache, lb_config: {push: outstanding}":         "push outstanding needs max_inflight",
		"lb_policy: prefix_cache, lb_config: {metrics: {interval: 5s}}": "stale_after is 3s, want more than " +
			"interval, 5s",
		"lb_policy: endpoint_metrics, lb_config: {metrics: {interval: 5000}}": "stale_after is 3s, want more",
		"lb_policy: prefix_cache, lb_config: {metrics: {stale_after: 1000}}":  "want more than interval, 1s",
		"lb_policy: consistent_hash, lb_config: {push: pending, metrics: {interval: 1.5s, " +
			"stale_after: 1500}}": "want more than interval, 1.5s",
		"lb_policy: token_budget": "token_budget needs lb_config.targets",
		"lb_policy: cluster_metrics, lb_config: {mode: LeastBusy, service_list: [a]}": "needs lb_type: cluster",
		"lb_type: cluster, lb_policy: cluster_metrics, lb_config: {mode: LeastBusy}":  "needs lb_config.service_list",
	} {
		for where, values := range map[string]string{
			"config: ": "config: {" + part + "}",
			"config._rules_[0]: ": "config: {lb_policy: global_least_request, _rules_: [{_match_route_: [a], " + part +
				"}]}",
		} {
			values = "gateway: istio\n" + values
			if _, _, err := template(c, complete(given(t, values))); err == nil ||
				!strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), message) {
				t.Errorf("%s\ngot %v\nwant %s%s", values, err, where, message)
			}
			off := strings.Replace(values, part, part+", enabled: false", 1)
			if _, _, err := template(c, complete(given(t, off))); err != nil {
				t.Errorf("%s: refused though it is switched off: %v", off, err)
			}
		}
		// Without the chart, the plugin refuses it, too, unless only the gateway is wrong.
		raw, err := yamlToJSON("{" + part + "}")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := config.Parse(raw, config.Higress); err == nil != strings.Contains(part, "serviceFQDN") {
			t.Errorf("%s: the plugin says %v", part, err)
		}
	}
	for _, values := range []string{
		"gateway: istio\nredis: {password: mine}", "gateway: envoy-gateway\nredis: {username: mine}",
	} {
		if _, _, err := template(c, complete(given(t, values))); err == nil ||
			!strings.Contains(err.Error(), "no effect without redis.enabled") {
			t.Errorf("%s\ngot %v", values, err)
		}
	}
}

// yamlToJSON rewrites a text, as Higress does for the plugin.
func yamlToJSON(text string) ([]byte, error) {
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// TestMistakes gives the chart those mistakes of the plugin's tests that are values of it.
func TestMistakes(t *testing.T) {
	c, list := load(t), configtest.Mistakes(t, "helm")
	for _, m := range list {
		text, _, err := template(c, complete(given(t, m.Text)))
		var got string
		if err != nil {
			got = err.Error()
		} else if set, err := config.Parse(pluginOf(t, read(t, []byte(text))), config.Envoy); err != nil {
			t.Errorf("%s\nthe plugin refuses what the chart renders: %v", m.Text, err)
		} else {
			got = strings.Join(set.Warnings(), "\n")
		}
		if (m.Verdict == "refused") != (err != nil) || !strings.Contains(got, m.Message) {
			t.Errorf("%s\ngot %s\nwant it %s: %s", m.Text, got, m.Verdict, m.Message)
		}
	}
	if len(list) < 10 {
		t.Errorf("only %d mistakes", len(list))
	}
}

// TestMessage compares the message in the document with Helm's.
func TestMessage(t *testing.T) {
	const values = "gateway: istio\nconfig: {lb_policy: prefix_cache, lb_config: {max_infligth: 64}}"
	_, _, err := template(load(t), given(t, values))
	if want := lab.Block(t, document, "text", "Error: "); err == nil ||
		"Error: INSTALLATION FAILED: "+strings.TrimSpace(err.Error()) != strings.TrimSpace(want) {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestNeedsMetrics checks that policies that cannot do without metrics are refused without a way to them.
func TestNeedsMetrics(t *testing.T) {
	c := load(t)
	for _, d := range lbpolicy.All() {
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			values := "gateway: istio\nmetrics: {enabled: false}\nconfig: {lb_policy: " + name + "}"
			_, _, err := template(c, complete(given(t, values)))
			refused := err != nil && strings.Contains(err.Error(), "needs metrics.enabled")
			if needed := d.Needs.Metrics == lbpolicy.MetricsRequired; needed != refused {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// nobodys are warnings of what no value can be.
var nobodys = regexp.MustCompile("no key of this plugin|taken as empty|is ignored beside")

// TestSchemaOfConfig checks that the values refuse no configuration that the plugin takes as a whole, unless a key in
// it is nobody's, or a condition without effect: those of the plugin's own tests, and those of ai-load-balancer.
func TestSchemaOfConfig(t *testing.T) {
	c := load(t)
	checked := 0
	accepted := func(name string, raw []byte, host config.Host) {
		t.Helper()
		set, err := config.Parse(raw, host)
		if err != nil || slices.ContainsFunc(set.Warnings(), nobodys.MatchString) {
			return
		}
		var one map[string]any
		if err := yaml.Unmarshal(raw, &one); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checked++
		// Through JSON, as Helm reads values.
		gateway := "istio"
		if host == config.Higress {
			gateway = "higress"
		}
		values := map[string]any{"gateway": gateway, "config": one}
		keys, _ := one["lb_config"].(map[string]any)
		if one["lb_type"] == "cluster" || keys["regions"] != nil {
			values["istio"] = map[string]any{"allRequests": gateway == "istio"}
			values["higress"] = map[string]any{"phase": "AUTHN", "allRequests": gateway == "higress"}
		}
		text, err := json.Marshal(values)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(text, []byte("change-me"), []byte("changed"))
		if _, _, err := template(c, complete(given(t, string(text)))); err != nil {
			t.Errorf("%s: %v\n%s", name, err, raw)
		}
	}
	files, err := filepath.Glob(harness.PathT(t, "plugin/config/testdata/*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		host := config.Higress
		if strings.HasPrefix(filepath.Base(file), "envoy-") {
			host = config.Envoy
		}
		accepted(filepath.Base(file), raw, host)
	}
	cases := string(harness.ReadT(t, "plugin/config/testdata/compat/ai-load-balancer.txt"))
	for _, one := range strings.Split(strings.TrimSpace(cases), "\n\n")[1:] {
		name, raw, _ := strings.Cut(one, "\n")
		accepted(name, []byte(raw), config.Higress)
	}
	if checked < 50 {
		t.Errorf("%d configurations, want at least 50", checked)
	}
	t.Logf("%d configurations", checked)
}
