package shipped

import (
	"maps"
	"strings"
	"testing"
)

// tag is a custom tag of Envoy's tracing, as far as the shipped one has it.
type tag struct {
	Tag     string
	Value   string
	Literal struct{ Value string }
}

// TestTracing holds that spans have the same attributes on Envoy, Istio and Envoy Gateway. e2e/otel runs Envoy's.
func TestTracing(t *testing.T) {
	want := map[string]string{}
	for _, tag := range find[[]tag](t, parse(t, "envoy-config/tracing.yaml"), "tracing.custom_tags") {
		want[tag.Tag] = tag.Value + tag.Literal.Value
	}
	if len(want) < 20 || strings.Contains(want["http.url"], "REQ(:PATH") {
		t.Errorf("%q", want)
	}
	istio := map[string]string{}
	for name, tag := range find[map[string]struct{ Formatter, Literal struct{ Value string } }](t,
		parse(t, "deploy/istio/tracing.yaml"), "spec.tracing[0].customTags") {
		istio[name] = tag.Formatter.Value + tag.Literal.Value
	}
	if !maps.Equal(istio, want) {
		t.Errorf("Istio's are %q, want %q", istio, want)
	}
	gateway := find[map[string]string](t, parse(t, "deploy/envoy-gateway/tracing.yaml"), "spec.telemetry.tracing.tags")
	if !maps.Equal(gateway, want) {
		t.Errorf("Envoy Gateway's are %q, want %q", gateway, want)
	}
}
