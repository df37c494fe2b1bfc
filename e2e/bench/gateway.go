package bench

import (
	"context"
	"errors"
	"fmt"
	"net"

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

// TargetHeader names the cluster that a request is for, where a route of [Clusters] leads to several.
const TargetHeader = "x-higress-target-cluster"

// Clusters adds clusters to the shipped layout, by their names, each with the one server at ip:port, and in front of
// its routes one that takes the cluster from [TargetHeader], and further ones, YAML.
func Clusters(names, addrs []string, routes string) func(doc *yaml.Node) error {
	return func(doc *yaml.Node) error {
		clusters := ""
		for i, name := range names {
			host, port, err := net.SplitHostPort(addrs[i])
			if err != nil {
				return err
			}
			clusters += fmt.Sprintf(`
- name: %[1]s
  type: STATIC
  connect_timeout: 1s
  circuit_breakers: {thresholds: [{max_connections: 65536, max_pending_requests: 65536, max_requests: 65536}]}
  load_assignment:
    cluster_name: %[1]s
    endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %[2]s, port_value: %[3]s}}}}]}]
`, name, host, port)
		}
		return errors.Join(harness.Insert(doc, harness.RoutesPath, "", 0, `
- match: {prefix: /, headers: [{name: `+TargetHeader+`, present_match: true}]}
  name: llm
  route: {cluster_header: `+TargetHeader+`, timeout: 120s}
`+routes), harness.Insert(doc, "static_resources.clusters", "", 0, clusters))
	}
}

// Probe builds the plugin that does parts of Warmgate's work, and returns its path: see e2e/bench/probe.
func Probe(ctx context.Context) (string, error) { return harness.BuildWasm(ctx, "./e2e/bench/probe") }
