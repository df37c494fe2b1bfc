package lint

import (
	"testing"

	"github.com/warmgate/warmgate/cmd/warmgate/internal/source"
)

// TestOthersAreLeftAlone checks files that look like ours and are not.
func TestOthersAreLeftAlone(t *testing.T) {
	for _, text := range []string{
		"kind: WasmPlugin\nspec: {url: oci://r.test/ai-load-balancer:2, defaultConfig: {lb_policy: least_busy}}\n",
		"kind: WasmPlugin\nspec: {url: oci://r.test/ai-proxy:2, defaultConfig: {provider: {}}}\n",
		"name: llm\nlb_policy: ROUND_ROBIN\nconnect_timeout: 1s\n",
		"config: {name: other, vm_config: {vm_id: other}, configuration: {value: \"{}\"}}\n",
		"kind: EnvoyExtensionPolicy\nspec: {wasm: [{name: other, config: {a: 1}}]}\n",
		"kind: TrafficExtension\nspec: {wasm: {url: oci://r.test/other}}\n",
		"kind: ConfigMap\ndata: {a.yaml: \"{{\", b: 1}\n",
		"gateway: {replicas: 1}\n", "- a\n", "", "null\n", "7\n", "kind: [a]\n",
	} {
		if got := File(source.NewFile("file.yaml", []byte(text)), Auto, false); len(got.Findings) > 0 ||
			got.Configurations > 0 {
			t.Errorf("%s\n%+v", text, got)
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
	rule := source.NewFile("f.yaml", []byte("_rules_:\n- _match_route_: [a]\n  lb_policy: prefix_cache\n"+
		"  lb_config: {envoy: {admin_cluster: a}}\n"))
	if got := File(rule, Auto, true); len(got.Findings) > 0 {
		t.Errorf("%+v", got)
	}
}
