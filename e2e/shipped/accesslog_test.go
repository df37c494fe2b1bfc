package shipped

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/warmgate/warmgate/e2e/harness"
)

// TestAccessLogFormats holds that the formats of the access log for Envoy, Istio and Envoy Gateway are the same, and
// that Higress's has what a replay reads.
func TestAccessLogFormats(t *testing.T) {
	want := find[map[string]string](t, parse(t, "envoy-config/access-log.yaml"),
		"access_log[0].typed_config.log_format.json_format")
	if want["warmgate"] != "%FILTER_STATE(wasm.warmgate:PLAIN)%" || want["path"] != "%PATH(NQ:PATH)%" {
		t.Errorf("%q", want)
	}
	istio := find[map[string]string](t, parse(t, "deploy/istio/access-log.yaml"),
		"spec.configPatches[0].patch.value.typed_config.access_log[0].typed_config.log_format.json_format")
	if !maps.Equal(istio, want) {
		t.Errorf("Istio's is %q, want %q", istio, want)
	}
	var higress map[string]string
	text := find[string](t, parse(t, "deploy/higress/values.yaml"), "higress-core.meshConfig.accessLogFormat")
	if err := json.Unmarshal([]byte(text), &higress); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"start_time", "duration", "response_code", "warmgate"} {
		if higress[key] != want[key] {
			t.Errorf("Higress's %s is %q, want %q", key, higress[key], want[key])
		}
	}
	for _, doc := range documents(t, harness.ReadT(t, "deploy/envoy-gateway/gateway.yaml")) {
		if find[string](t, doc, "kind") != "EnvoyProxy" {
			continue
		}
		got := find[map[string]string](t, doc, "spec.telemetry.accessLog.settings[0].format.json")
		if !maps.Equal(got, want) {
			t.Errorf("Envoy Gateway's is %q, want %q", got, want)
		}
	}
}
