package istio

import (
	"fmt"
	"strings"
	"testing"

	"istio.io/istio/pilot/pkg/features"

	"github.com/warmgate/warmgate/e2e/harness"
	"github.com/warmgate/warmgate/e2e/mesh/lab"
)

// TestBadModule has Istio's agent fetch a module that is larger than its limit, or from a registry that hangs. As the
// document says, a gateway that has the plugin keeps it, and another one balances requests natively.
func TestBadModule(t *testing.T) {
	applied, _ := installed(t)
	const denied, limit = "type URL envoy.extensions.filters.http.rbac.v3.RBAC", 256 << 20
	if features.MaxWasmBinarySizeBytes != limit {
		t.Errorf("the agent's limit is %d bytes", features.MaxWasmBinarySizeBytes)
	}
	compat := with(t, applied, ":0.1.0\n", ":0.1.0-compat\n")
	from := func(registry *lab.Hanging) string {
		return with(t, applied, commands.registry, registry.Addr, "timeout: 30s", "timeout: 1s")
	}
	for name, test := range map[string]struct {
		good, bad string
		limit     int64 // of the agent, while it fetches the bad one
		refusal   string
	}{
		"too large": {compat, compat, 1 << 20, denied},
		// The layer is the module, of which the agent takes as much as it may.
		"cut off":         {applied, applied, 1 << 20, "Unable to create Wasm plugin"},
		"silent registry": {applied, from(lab.Silent(t)), limit, denied},
		"endless module":  {applied, from(lab.Endless(t, commands.images)), limit, denied},
	} {
		t.Run(name, func(t *testing.T) {
			gateway := controlled(t, harness.DefaultVersion, test.good)
			gateway.AwaitChosen(t)
			defer func(size int64) { features.MaxWasmBinarySizeBytes = size }(features.MaxWasmBinarySizeBytes)
			features.MaxWasmBinarySizeBytes = test.limit
			gateway.apply(test.bad)
			gateway.refuses(t, test.refusal)
			gateway.Placed(t, 10)
			without := controlled(t, harness.DefaultVersion, test.bad)
			without.refuses(t, test.refusal)
			without.Native(t)
		})
	}
}

// refuses waits until Envoy has refused, for a reason, what the agent has made of the plugin.
func (g *controlledGateway) refuses(t *testing.T, reason string) {
	t.Helper()
	harness.Await(t, func() error {
		for _, line := range strings.Split(g.Log(), "\n") {
			if strings.Contains(line, "config update rejected") && strings.Contains(line, reason) {
				return nil
			}
		}
		return fmt.Errorf("Envoy has not refused the plugin: %s", reason)
	})
}
