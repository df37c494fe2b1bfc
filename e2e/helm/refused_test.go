package helm

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
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
		"gateway: envoy-gateway\nconfig: text":                            "'/config': got string, want object",
		"gateway: istio\nconfig: {lb_polcy: prefix_cache}":                "'lb_polcy' not allowed",
		"gateway: istio\nconfig: {lb_policy: round_robin}":                "'/config/lb_policy': value must be one of",
		"gateway: istio\nconfig: {_rules_: [{_match_route_: 5}]}":         "'/config/_rules_/0/_match_route_': got",
		"gateway: istio\nconfig: {lb_policy: prefix_cache, lb_config: {a: 1}}": "'/config/lb_config': additional " +
			"properties 'a' not allowed",
		"gateway: istio\nconfig: {lb_policy: prefix_cache, lb_config: {max_inflight: -1}}": "max_inflight': " +
			"minimum: got -1, want 0",

		higress + "higress: {priority: high}":                           "'/higress/priority': got string, want",
		higress + "higress: {phase: LATE}":                              "'/higress/phase': value must be one of",
		higress + "higress: {matchRules: [{ingress: [a]}]}":             "missing property 'config'",
		higress + "higress: {matchRules: [{config: {}}]}":               "'/higress/matchRules/0'",
		higress + "higress: {matchRules: [{routes: [a], config: {}}]}":  "'routes' not allowed",
		higress + "higress: {matchRules: [{ingress: [a], config: {}}]}": "matchRules[0].config has no lb_policy",

		"gateway: higress":                                          "higress.matchRules names the routes",
		higress + "metrics: {enabled: true}":                        "metrics.enabled is for istio and envoy-gateway",
		higress + "redis: {enabled: true}":                          "redis.enabled is for istio and envoy-gateway",
		"gateway: istio\nimage: {pullSecret: login}":                "image.pullSecret is for higress and envoy",
		"gateway: istio\nconfig: {lb_type: endpoint}":               "config has no lb_policy",
		"gateway: istio\nconfig: {_rules_: [{_match_route_: [a]}]}": "config._rules_[0] has no lb_policy",
		"gateway: istio\nistio: {services: [{name: a, namespace: b, port: 1}, " +
			"{name: a, namespace: c, port: 1}]}": "istio.services has two of the name a",
		"gateway: istio\nhigress: {matchRules: [{ingress: [a], config: {enabled: false}}]}": "on istio, write " +
			"rules into config._rules_",
	} {
		if _, _, err := template(c, given(t, values)); err == nil || !strings.Contains(err.Error(), message) {
			t.Errorf("%s\ngot %v\nwant %s", values, err, message)
		}
	}
}

// TestMistakes gives the chart those mistakes of the plugin's tests that are values of it.
func TestMistakes(t *testing.T) {
	c, count := load(t), 0
	blocks := strings.Split(strings.TrimSpace(string(harness.ReadT(t, "plugin/config/testdata/mistakes.txt"))), "\n\n")
	for _, block := range blocks {
		head, values, _ := strings.Cut(block, "\n")
		verdict, ofChart := strings.CutPrefix(head, "helm ")
		if !ofChart {
			continue
		}
		count++
		verdict, message, _ := strings.Cut(verdict, ": ")
		text, _, err := template(c, given(t, values))
		var got string
		if err != nil {
			got = err.Error()
		} else if set, err := config.Parse(pluginOf(t, read(t, []byte(text))), config.Envoy); err != nil {
			t.Errorf("%s\nthe plugin refuses what the chart renders: %v", values, err)
		} else {
			got = strings.Join(set.Warnings(), "\n")
		}
		if (verdict == "refused") != (err != nil) || !strings.Contains(got, message) {
			t.Errorf("%s\ngot %s\nwant it %s: %s", values, got, verdict, message)
		}
	}
	if count < 10 {
		t.Errorf("only %d mistakes", count)
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
	for _, d := range lb.Policies() {
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			_, _, err := template(c, given(t, "gateway: istio\nconfig: {lb_policy: "+name+"}"))
			if needed := d.Needs.Metrics == lb.MetricsRequired; needed != (err != nil) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestSchemaOfConfig checks that the schema of the values refuses no configuration that the plugin takes as a whole,
// unless a key in it is nobody's: those of the plugin's own tests, and those of ai-load-balancer.
func TestSchemaOfConfig(t *testing.T) {
	c := load(t)
	checked := 0
	accepted := func(name string, raw []byte, host config.Host) {
		t.Helper()
		set, err := config.Parse(raw, host)
		if err != nil || slices.ContainsFunc(set.Warnings(), func(w string) bool {
			return strings.Contains(w, "no key of this plugin") || strings.Contains(w, "taken as empty")
		}) {
			return
		}
		var one map[string]any
		if err := yaml.Unmarshal(raw, &one); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checked++
		// Through JSON, as Helm reads values.
		text, err := json.Marshal(map[string]any{
			"gateway": "istio", "metrics": map[string]any{"enabled": true}, "config": one,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := template(c, given(t, string(text))); err != nil {
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
