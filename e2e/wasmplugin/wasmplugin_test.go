package wasmplugin

import (
	"strings"
	"testing"
)

const head = "apiVersion: extensions.higress.io/v1alpha1\nkind: WasmPlugin\nspec:\n  url: " +
	"oci://registry.example.com/x:1\n  failStrategy: FAIL_OPEN\n"

func TestPluginConfig(t *testing.T) {
	for _, c := range []struct{ name, spec, want string }{
		{"nothing", "", `{}`},
		{"global", "  defaultConfig: {a: 1}\n", `{"a":1}`},
		{"global switched off", "  defaultConfig: {a: 1}\n  defaultConfigDisable: true\n", ""},
		{
			"rules", "  defaultConfig: {a: 1}\n  matchRules:\n  - {ingress: [r], config: {b: [x]}}\n" +
				"  - {domain: [d, e], service: [s], config: {c: null}}\n",
			`{"_rules_":[{"_match_route_":["r"],"b":["x"]},{"_match_domain_":["d","e"],"_match_service_":["s"],"c":null}],"a":1}`,
		},
		{
			"rules switched off", "  matchRules:\n  - {ingress: [r], config: {b: 1}, configDisable: true}\n  - " +
				"{ingress: [q]}\n",
			`{"_rules_":[{"_match_route_":["q"]}]}`,
		},
		{"all rules switched off", "  matchRules:\n  - {ingress: [r], configDisable: true}\n", `{}`},
		{
			"everything switched off",
			"  defaultConfigDisable: true\n  matchRules:\n  - {ingress: [r], configDisable: true}\n", "",
		},
	} {
		r, err := Parse([]byte(head + c.spec))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for range 2 { // the resource itself stays as it is
			if got, err := r.PluginConfig(); err != nil || string(got) != c.want {
				t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
			}
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"v1alpha1", "v1", `apiVersion is "extensions.higress.io/v1"`},
		{"kind: WasmPlugin", "kind: EnvoyFilter", `kind is "EnvoyFilter"`},
		{"oci://", "http://", `spec.url is "http://`},
		{"FAIL_OPEN", "FAIL_CLOSE", `spec.failStrategy is "FAIL_CLOSE"`},
		{"  failStrategy: FAIL_OPEN\n", "", `spec.failStrategy is ""`},
		{"spec:", "spec: [", "yaml: "},
		{"failStrategy", "failureStrategy: x\n  failStrategy", "field failureStrategy not found"},
		{"failStrategy", "phase: EARLY\n  failStrategy", `spec.phase is "EARLY"`},
		{"failStrategy", "priority: high\n  failStrategy", "cannot unmarshal"},
		{"failStrategy", "imagePullPolicy: Never\n  failStrategy", `spec.imagePullPolicy is "Never"`},
		{"failStrategy", "matchRules: [{routes: [a]}]\n  failStrategy", "field routes not found"},
		{"failStrategy", "matchRules: [{routeType: TCP}]\n  failStrategy", `spec.matchRules.routeType is "TCP"`},
		{"failStrategy", "vmConfig: {env: [{name: A, valueFrom: FILE}]}\n  failStrategy", `valueFrom is "FILE"`},
	} {
		if _, err := Parse([]byte(strings.Replace(head, c.old, c.replacement, 1))); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.replacement, err, c.want)
		}
	}
}

const shown = `apiVersion: extensions.higress.io/v1alpha1
kind: WasmPlugin
metadata:
  name: warmgate-0.1.0
  labels:
    higress.io/resource-definer: higress
    higress.io/wasm-plugin-name: warmgate
    higress.io/wasm-plugin-version: 0.1.0
    higress.io/wasm-plugin-category: custom
    higress.io/wasm-plugin-built-in: "false"
  annotations: {higress.io/wasm-plugin-title: Warmgate}
spec:
  url: oci://registry.example.com/x:1
  failStrategy: FAIL_OPEN
  defaultConfigDisable: true
  matchRules:
  - {service: [s.dns], configDisable: false, config: {a: 1}}
  - {ingress: [r], configDisable: true, config: {a: 1}}
  - {domain: [d], configDisable: false, config: {a: 1}}
`

func TestShown(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"", "", ""},
		{"resource-definer: higress", "resource-definer: me", "resource-definer is wrong"},
		{"warmgate-0.1.0", "warmgate", "the name warmgate is not that of its labels, warmgate-0.1.0"},
		{`built-in: "false"`, "built-in: maybe", "built-in is wrong"},
		{"wasm-plugin-category: custom", "x: y", "category is wrong"},
		{"wasm-plugin-title", "title", "title is wrong"},
		{"  defaultConfigDisable: true\n", "", "no defaultConfigDisable"},
		{"ingress: [r]", "ingress: [r, q]", "rule 1 is not shown"},
		{"configDisable: true,", "", "rule 1 is not shown"},
		{"ingress: [r]", "domain: [e]", ""},
		{"service: [s.dns]", "domain: [e]", "rule 1 would be placed before others"},
	} {
		r, err := Parse([]byte(strings.Replace(shown, c.old, c.replacement, 1)))
		if err != nil {
			t.Fatalf("%s: %v", c.replacement, err)
		}
		if err := r.Shown(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.replacement, err, c.want)
		}
	}
}
