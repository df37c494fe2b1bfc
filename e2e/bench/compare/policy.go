package compare

import (
	"context"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Policy is one way to balance the cluster, and how to make a running gateway use it.
type Policy struct {
	Name     string         // as shown to people
	Cluster  harness.Policy // balancing of the cluster
	FullScan bool           // harness.LeastRequest alone: looks at every endpoint instead of at two
	Plugin   string         // configuration of the plugin, JSON; "" = no plugin at all
}

// The three policies that every comparison shows. The native ones run without the plugin, so that they pay none of its cost.
var (
	RoundRobin   = Policy{Name: "round_robin", Cluster: harness.RoundRobin}
	LeastRequest = Policy{Name: "least_request", Cluster: harness.LeastRequest}
	Warmgate     = Policy{Name: "Warmgate", Cluster: harness.Warmgate, Plugin: warmgateConfig("requests", "", "")}
)

// Shared is Warmgate with the counts of all gateways in one Redis: see [Options].Redis.
var Shared = Policy{Name: "Warmgate, shared", Cluster: harness.Warmgate, Plugin: warmgateConfig("requests", inRedis, "")}

// Patient is Shared with more time to reserve than the default: for a herd that keeps this machine's few cores busy for longer
// than that.
var Patient = Policy{
	Name: "Warmgate, shared, reserve_timeout 2s", Cluster: harness.Warmgate,
	Plugin: warmgateConfig("requests", inRedis, `,"reserve_timeout":"2s"`),
}

// Two more, for those who want to know what the others are made of.
var (
	FullScan       = Policy{Name: "full_scan", Cluster: harness.LeastRequest, FullScan: true}
	WarmgateTokens = Policy{Name: "Warmgate, tokens", Cluster: harness.Warmgate, Plugin: warmgateConfig("tokens", "", "")}
)

const inRedis = `,"redis_cluster":"warmgate-redis"`

// warmgateConfig returns a configuration of the plugin; redis and more are further members of its parts.
func warmgateConfig(unit, redis, more string) string {
	return `{"lb_type":"endpoint","lb_policy":"global_least_request","lb_config":{"unit":"` + unit +
		`","envoy":{"admin_cluster":"warmgate-admin"` + redis + `}` + more + `,"debug_headers":true}}`
}

// Describe says in one line what the policy is, with the settings that matter.
func (p Policy) Describe() string {
	switch p.Cluster {
	case harness.RoundRobin:
		return "Envoy's round_robin, no plugin"
	case harness.LeastRequest:
		if p.FullScan {
			return "Envoy's least_request over all endpoints (selection_method: FULL_SCAN), no plugin"
		}
		return "Envoy's least_request with its defaults (two random choices), no plugin"
	}
	return "Warmgate " + p.Plugin
}

// Switch makes the running gateways use the policy, by replacing the watched files. Streams that are open stay open.
func (s *Stage) Switch(ctx context.Context, p Policy) error {
	s.fullScan.Store(p.FullScan)
	for _, g := range s.Gateways {
		var err error
		if p.Plugin == "" {
			err = g.PushNoPlugin(ctx)
		} else {
			err = g.PushModule(ctx, s.module, p.Plugin)
		}
		if err == nil {
			err = g.PushCluster(ctx, p.Cluster)
		}
		if err != nil {
			return fmt.Errorf("compare: switch to %s: %w", p.Name, err)
		}
	}
	return nil
}

// edit puts what harness.Policy cannot say into the cluster. The gateway calls it for every file that it writes.
func (s *Stage) edit(file string, doc *yaml.Node) error {
	if file != "clusters.yaml" || !s.fullScan.Load() {
		return nil
	}
	return harness.Set(doc, "resources[name=llm].load_balancing_policy.policies[0].typed_extension_config.typed_config.selection_method", "FULL_SCAN")
}
