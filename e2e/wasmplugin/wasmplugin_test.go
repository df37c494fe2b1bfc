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
		{"global switched off", "  defaultConfig: {a: 1}\n  defaultConfigDisable: true\n", `{}`},
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
	} {
		if _, err := Parse([]byte(strings.Replace(head, c.old, c.replacement, 1))); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.replacement, err, c.want)
		}
	}
}
