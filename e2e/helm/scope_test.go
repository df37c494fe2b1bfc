package helm

import (
	"strings"
	"testing"

	"github.com/warmgate/warmgate/e2e/wasmplugin"
	"github.com/warmgate/warmgate/plugin/config"
)

// shop is a service that nobody names.
const shop = "outbound|80||shop.default.svc.cluster.local"

// What chooses among clusters, so that a route has none yet: parts of the plugin's configuration.
const (
	amongClusters = "lb_type: cluster, lb_policy: cluster_metrics, lb_config: {mode: LeastBusy, service_list: [a]}"
	withRegions   = "lb_policy: prefix_cache, lb_config: {max_inflight: 8, regions: {name: us, cluster: a, peers: [" +
		"{name: eu, cluster: b, rtt: 80ms}], secret: 0123456789abcdef0123456789abcdef}}"
)

// refusal checks that values are refused, by a message that has a text.
func refusal(t *testing.T, values, message string) {
	t.Helper()
	_, _, err := template(load(t), complete(given(t, values)))
	if err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("%s\ngot %v\nwant %s", values, err, message)
	}
}

// notesOf renders values, and returns what Helm shows and the plugin's configuration as it reads that.
func notesOf(t *testing.T, values string) (string, *config.Set) {
	t.Helper()
	text, notes, err := template(load(t), complete(given(t, values)))
	if err != nil {
		t.Fatalf("%s\n%v", values, err)
	}
	list, host := read(t, []byte(text)), config.Envoy
	var raw []byte
	if list[0]["kind"] == "WasmPlugin" {
		host = config.Higress
		var r *wasmplugin.Resource
		if r, err = wasmplugin.Parse([]byte(text)); err == nil {
			raw, err = r.PluginConfig()
		}
	} else {
		raw = pluginOf(t, list)
	}
	if err != nil {
		t.Fatal(err)
	}
	set, err := config.Parse(raw, host)
	if err != nil {
		t.Fatalf("%s\n%v", values, err)
	}
	return notes, set
}

// TestScope checks that the plugin, and the chart's route, are for all requests of a gateway only if allRequests says
// so, and that the notes say it then, too.
func TestScope(t *testing.T) {
	const (
		istio   = "gateway: istio\nistio: {allRequests: false}\n"
		higress = "gateway: higress\nhigress: {allRequests: false, matchRules: [{"
	)
	for values, what := range map[string]string{
		istio + "config: {" + amongClusters + "}": "config (lb_type: cluster)",
		istio + "config: {" + withRegions + "}":   "config (lb_config.regions)",
		istio + "config: {_rules_: [{_match_domain_: ['*'], lb_policy: prefix_cache}]}": "config._rules_[0] " +
			"(_match_domain_: *)",
		istio + "config: {_rules_: [{_match_domain_: '*', lb_policy: prefix_cache}]}": "config._rules_[0] " +
			"(_match_domain_: *)",
		istio + "config: {_rules_: [{_match_service_: [a.test], lb_policy: prefix_cache}, {_match_domain_: [b.test, " +
			"'*'], lb_policy: prefix_cache, lb_config: {shadow: true}}]}": "config._rules_[1] (_match_domain_: *)",
		higress + "domain: ['*'], config: {lb_policy: prefix_cache}}]}": "higress.matchRules[0] (domain: *)",
		"gateway: higress\nhigress: {allRequests: false}\nconfig: {_rules_: [{_match_domain_: ['*'], " +
			"lb_policy: prefix_cache}]}": "config._rules_[0] (_match_domain_: *)",
	} {
		gateway := strings.TrimPrefix(values[:strings.Index(values, "\n")], "gateway: ")
		refusal(t, values, what+" is for all requests of the gateway: set "+gateway+".allRequests to say so")
		notes, set := notesOf(t, strings.Replace(values, "allRequests: false", "allRequests: true", 1))
		if set.Match("other", shop, "shop.test") == nil {
			t.Errorf("%s\nis not for all requests", values)
		}
		if !strings.Contains(notes, "ALL requests of the gateway: "+what) || strings.Contains(notes, "and no other") {
			t.Errorf("%s\nthe notes are: %s", values, notes)
		}
	}
	refusal(t, "gateway: istio\nistio: {allRequests: false, route: {hosts: ['*']}}", "istio.route.hosts (*)")
	notes, _ := notesOf(t, "gateway: istio\nistio: {allRequests: true, route: {hosts: ['*']}}")
	if !strings.Contains(notes, "ALL requests of the gateway: istio.route.hosts (*)") {
		t.Errorf("the notes are: %s", notes)
	}
	refusal(t, "gateway: envoy-gateway\nenvoyGateway: {route: {hosts: ['*']}}", "envoyGateway.route.hosts: '*'")
}

// TestNarrow checks that what names its requests needs no more, leaves alone what nobody has named, and is what the
// notes name.
func TestNarrow(t *testing.T) {
	for values, said := range map[string]string{
		"gateway: istio": "- vllm.default.svc.cluster.local:8000\nand no other",
		"gateway: istio\nconfig: {_rules_: [{_match_route_: [chat], " + amongClusters + "}]}": "- config._rules_[0]: " +
			`_match_route_ ["chat"]` + "\nand no other",
		"gateway: istio\nconfig: {lb_policy: prefix_cache, _rules_: [{_match_domain_: ['*.llm.test'], enabled: " +
			"false}]}": "\n- vllm.default.svc.cluster.local:8000\nand no other",
		// What is switched off is for nobody.
		"gateway: istio\nconfig: {enabled: false, " + amongClusters + "}": "runs the plugin, which is switched off.",
		"gateway: istio\nconfig: {lb_policy: prefix_cache, _rules_: [{_match_domain_: ['*'], enabled: false}]}": "" +
			"and no other",
		"gateway: higress\nhigress: {matchRules: [{ingress: [chat], service: [vllm.dns], config: {lb_policy: " +
			"prefix_cache}}]}": "- higress.matchRules[0]: ingress [\"chat\"], service [\"vllm.dns\"]\nand no other",
		"gateway: higress\nhigress: {matchRules: [{ingress: [chat], config: {lb_policy: prefix_cache}}, " +
			"{domain: ['*'], configDisable: true, config: {lb_policy: prefix_cache}}]}": "and no other",
	} {
		notes, set := notesOf(t, values)
		if c := set.Match("other", shop, "shop.test"); c != nil && c.Enabled {
			t.Errorf("%s\ntouches what nobody has named", values)
		}
		if !strings.Contains(notes, said) {
			t.Errorf("%s\ngot %s\nwant %s", values, notes, said)
		}
	}
}

// TestAllRequestsAlone checks that allRequests is no leave for what comes later: without anything that is for all
// requests it is refused. That is no hindrance to switching the plugin off.
func TestAllRequestsAlone(t *testing.T) {
	for _, values := range []string{
		"gateway: istio\nistio: {allRequests: true}",
		"gateway: istio\nistio: {allRequests: true}\nconfig: {lb_policy: prefix_cache}",
		"gateway: higress\nhigress: {allRequests: true, matchRules: [{ingress: [a], config: {enabled: false}}]}",
	} {
		refusal(t, values, ".allRequests to say so, and only then")
	}
	_, set := notesOf(t, "gateway: istio\nistio: {allRequests: true}\nconfig: {enabled: false, "+amongClusters+"}")
	if set.Match("", shop, "").Enabled {
		t.Error("it is not switched off")
	}
}

// TestOneKind checks that a rule does not name two kinds of things where the plugin, as Higress, compares only one: the
// rule would be for more than is written.
func TestOneKind(t *testing.T) {
	const noEffect = " has no effect beside "
	for kinds, message := range map[string]string{
		"ingress: [chat], domain: [a.test]":     "domain" + noEffect + "ingress",
		"domain: [a.test], service: [vllm.dns]": "service" + noEffect + "domain",
	} {
		refusal(t, "gateway: higress\nhigress: {matchRules: [{"+kinds+", config: {lb_policy: prefix_cache}}]}",
			"higress.matchRules[0]: "+message)
	}
	for kinds, message := range map[string]string{
		"_match_route_: httproute/a, _match_domain_: [a.test]":     ": _match_domain_" + noEffect + "_match_route_",
		"_match_domain_: [a.test], _match_service_: [v.test:8000]": ": _match_service_" + noEffect + "_match_domain_",
		"_match_domain_: a.test, _match_service_: v.test":          ": _match_service_" + noEffect + "_match_domain_",
		"_match_service_: [v.test], _match_route_prefix_: [a]":     ": _match_route_prefix_" + noEffect,
		"enabled: true": " names nothing that it is for",
	} {
		for _, gateway := range []string{"istio", "envoy-gateway"} {
			refusal(t, "gateway: "+gateway+"\nconfig: {_rules_: [{lb_policy: prefix_cache, "+kinds+"}]}",
				"config._rules_[0]"+message)
		}
	}
}
