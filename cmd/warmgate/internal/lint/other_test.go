package lint

import (
	"slices"
	"testing"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
	"github.com/warmgate/warmgate/e2e/harness"
)

// TestOthersAreLeftAlone checks files that look like ours and are not.
func TestOthersAreLeftAlone(t *testing.T) {
	for _, text := range []string{
		"kind: WasmPlugin\nspec: {url: oci://r.test/ai-load-balancer:2, defaultConfig: {lb_policy: least_busy}}\n",
		"kind: WasmPlugin\nspec: {url: oci://r.test/my-lb:2, defaultConfig: {lb_policy: mine}}\n",
		"kind: WasmPlugin\nspec: {url: oci://r.test/ai-proxy:2, defaultConfig: {provider: {}}}\n",
		"name: llm\nlb_policy: ROUND_ROBIN\nconnect_timeout: 1s\n",
		"config: {name: other, vm_config: {vm_id: other}, configuration: {value: \"{}\"}}\n",
		"config: {name: warmgate-log, vm_config: {code: {local: {filename: /log.wasm}}}, configuration: {value: a}}\n",
		"kind: EnvoyExtensionPolicy\nspec: {wasm: [{name: other, config: {a: 1}}]}\n",
		"kind: TrafficExtension\nspec: {wasm: {url: oci://r.test/other}}\n",
		"kind: ConfigMap\ndata: {a.yaml: \"{{\", b: 1}\n",
		"kind: Cluster\nspec: {lb_policy: ROUND_ROBIN} # as lb_policy: prefix_cache\n",
		"kind: ConfigMap\ndata: {note: \"{{ of warmgate }}\"}\n",
		"gateway: main\nimage: {repository: a}\nconfig: {a: 1}\n",
		"gateway: {replicas: 1}\n", "- a\n", "", "null\n", "7\n", "kind: [a]\n",
	} {
		if got := File(source.NewFile("file.yaml", []byte(text)), Auto, false); len(got.Findings) > 0 ||
			got.Configurations > 0 {
			t.Errorf("%s\n%+v", text, got)
		}
	}
}

// TestBrokenFiles warns of a file that was not asked for and only mentions the plugin.
func TestBrokenFiles(t *testing.T) {
	for _, c := range []struct {
		text           string
		named, warning bool
	}{
		{"of: warmgate\nb: [\n", false, true},
		{"of: warmgate\nb: [\n", true, false},
		{"lb_policy: prefix_cache\nb: [\n", false, false},
	} {
		got := File(source.NewFile("file.yaml", []byte(c.text)), Auto, c.named).Findings
		if len(got) != 1 || got[0].Kind != "syntax" || got[0].Warning != c.warning {
			t.Errorf("%q: %+v", c.text, got)
		}
	}
}

// TestGateway checks a configuration by itself for the gateway that is asked for, or else by its keys.
func TestGateway(t *testing.T) {
	const text = "lb_policy: prefix_cache\n"
	for gateway, problems := range map[Gateway]int{Auto: 0, Higress: 0, Envoy: 1} {
		f := source.NewFile("file.yaml", []byte(text))
		if got := File(f, gateway, true); len(got.Findings) != problems {
			t.Errorf("%s: %+v", gateway, got)
		}
	}
	misspelt := source.NewFile("file.yaml", []byte("lb_polic: prefix_cache\n"))
	if got := File(misspelt, Envoy, true); got.Configurations != 1 || len(got.Findings) == 0 {
		t.Errorf("%+v", got)
	}
	for _, text := range []string{"resources: []\n", "kind: Service\n"} {
		if got := File(source.NewFile("file.yaml", []byte(text)), Envoy, true); got.Configurations > 0 {
			t.Errorf("%s: %+v", text, got)
		}
	}
	rule := source.NewFile("f.yaml", []byte("_rules_:\n- _match_route_: [a]\n  lb_policy: prefix_cache\n"+
		"  lb_config: {envoy: {admin_cluster: a}}\n"))
	if got := File(rule, Auto, true); len(got.Findings) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestPatches checks patches of a WasmPlugin, which lack nothing: what they leave out is in what they patch.
func TestPatches(t *testing.T) {
	for _, text := range []string{
		"metadata: {name: warmgate}\nspec: {priority: 60}\n",
		"spec: {defaultConfig: {lb_config: {debug_headers: true}}}\n",
		"spec: {defaultConfig: {lb_policy: prefix_cache, lb_config: {max_inflight: 8}}}\n",
		"spec: {matchRules: [{ingress: [chat], config: {lb_config: {queue: {aging: 10s}}}}]}\n",
		"metadata: {name: warmgate}\n$patch: delete\nspec: {}\n",
	} {
		f := source.NewFile("file.yaml", []byte("kind: WasmPlugin\n"+text))
		if got := File(f, Auto, true); len(got.Findings) > 0 || got.Configurations != 1 {
			t.Errorf("%s\n%+v", text, got)
		}
	}
}

// TestFieldsAreThoseOfHigress compares the fields of a WasmPlugin with Higress's definition of it.
func TestFieldsAreThoseOfHigress(t *testing.T) {
	list, err := source.NewFile("crd.yaml", harness.ReadT(t, "e2e/helm/testdata/higress.yaml")).YAML()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]source.Kind{
		"object": source.Object, "array": source.List, "string": source.String, "boolean": source.Bool,
		"integer": source.Number,
	}
	compare := func(known []field, properties *source.Node) {
		if len(known) != len(properties.Keys) {
			t.Errorf("%d fields, want %v", len(known), properties.Keys)
		}
		for _, f := range known {
			var choices []string
			for _, choice := range properties.Get(f.name).Get("enum").Elements() {
				choices = append(choices, choice.Text)
			}
			kind := kinds[properties.Find(f.name, "type").String()]
			if kind != f.kind || !slices.Equal(choices, f.choices) {
				t.Errorf("%+v is of kind %v, with the choices %q", f, kind, choices)
			}
		}
	}
	for _, n := range list {
		if n.Find("spec", "names", "kind").String() == "WasmPlugin" {
			schema := n.Find("spec", "versions").Items[0].Find("schema", "openAPIV3Schema")
			spec := schema.Find("properties", "spec", "properties")
			compare(wasmPluginFields, spec)
			compare(matchRuleFields, spec.Find("matchRules", "items", "properties"))
			return
		}
	}
	t.Error("there is no WasmPlugin")
}
