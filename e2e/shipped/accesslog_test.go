package shipped

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/higresshost"
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
	if higress["warmgate_fields"] != "%FILTER_STATE(wasm.warmgate_fields:PLAIN)%" {
		t.Errorf("Higress's fields are %q", higress["warmgate_fields"])
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

// TestFieldsInHigress holds that a line of Higress's format is JSON with the plugin's fields in it, whatever a client
// calls its model, and that the log says so where a request has none.
func TestFieldsInHigress(t *testing.T) {
	const llm = "outbound|8000||vllm.default.svc.cluster.local"
	gw := higresshost.Start(t, higresshost.Options{
		Wasm: harness.ModuleT(t, harness.HostHigress),
		Config: `{"lb_policy":"prefix_cache",
			"lb_config":{"telemetry":{"log":"both"}}}`,
	})
	gw.Cluster(llm).Add("10.0.0.1:8000")
	gw.Cluster(llm).Add("10.0.0.2:8000")
	gw.Advance(2 * time.Second)
	format := find[string](t, parse(t, "deploy/higress/values.yaml"), "higress-core.meshConfig.accessLogFormat")
	s := gw.Worker(0).NewStream().To("chat", llm)
	s.Send(http.MethodPost, "/v1/chat/completions", `{"model":"a\"\\\u0001ü","messages":[{"role":"user","content":"x"}]}`)
	s.Respond(http.StatusOK, `{"usage":{"prompt_tokens":9,"completion_tokens":2}}`)
	for filterState, want := range map[*map[string]string]map[string]any{
		&s.FilterState: {
			"model": "a\"\\\u0001ü", "prompt_tokens": 9.0, "output_tokens": 2.0, "reason": "chosen", "match": 0.0,
		},
		{}: nil,
	} {
		operator := regexp.MustCompile(`%FILTER_STATE\(wasm\.(\w+):PLAIN\)%|%[^%]*%`)
		line := operator.ReplaceAllStringFunc(format, func(op string) string {
			return cmp.Or((*filterState)[operator.FindStringSubmatch(op)[1]], "-")
		})
		var all map[string]string
		if err := json.Unmarshal([]byte(line), &all); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(all["warmgate_fields"]), &got); (err != nil) != (want == nil) {
			t.Fatalf("%s: %v", line, err)
		}
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s is %v, want %v", name, got[name], v)
			}
		}
	}
}
