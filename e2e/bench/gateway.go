package bench

import (
	"context"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Quiet takes out of the shipped layout what would disturb a measurement of Envoy's CPU time, as harness.Options.Edit:
// the health checks of hundreds of endpoints by several gateways, and the access log. Both cost the same with and
// without a plugin.
func Quiet(file string, doc *yaml.Node) error {
	switch file {
	case "clusters.yaml":
		return harness.Remove(doc, "resources[name=llm].health_checks")
	case "envoy.yaml":
		return harness.Remove(doc, harness.ManagerPath+".access_log")
	}
	return nil
}

// Probe builds the plugin that does parts of Warmgate's work, and returns its path: see e2e/bench/probe.
func Probe(ctx context.Context) (string, error) { return harness.BuildWasm(ctx, "./e2e/bench/probe") }
