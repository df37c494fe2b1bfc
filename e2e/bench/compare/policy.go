package compare

import (
	"context"
	"fmt"

	"github.com/warmgate/warmgate/e2e/harness"
)

// Policy is one way to balance the cluster, and how to make a running gateway use it.
type Policy struct {
	Name    string         // as shown to people
	Cluster harness.Policy // balancing of the cluster
	Plugin  string         // configuration of the plugin, JSON; "" = no plugin at all
}

// The three policies that every comparison shows. The native ones run without the plugin, so that they pay none of its cost.
var (
	RoundRobin   = Policy{Name: "round_robin", Cluster: harness.RoundRobin}
	LeastRequest = Policy{Name: "least_request", Cluster: harness.LeastRequest}
	Warmgate     = Policy{Name: "Warmgate", Cluster: harness.Warmgate, Plugin: warmgateConfig}
)

const warmgateConfig = `{"lb_type":"endpoint","lb_policy":"global_least_request",` +
	`"lb_config":{"unit":"requests","envoy":{"admin_cluster":"warmgate-admin"},"debug_headers":true}}`

// Describe says in one line what the policy is, with the settings that matter.
func (p Policy) Describe() string {
	switch p.Cluster {
	case harness.RoundRobin:
		return "Envoy's round_robin, no plugin"
	case harness.LeastRequest:
		return "Envoy's least_request with its defaults (two random choices), no plugin"
	}
	return "Warmgate " + p.Plugin
}

// Switch makes the running gateway use the policy, by replacing the watched files. Streams that are open stay open.
func (s *Stage) Switch(ctx context.Context, p Policy) error {
	if p.Plugin == "" {
		if err := s.Gateway.PushNoPlugin(ctx); err != nil {
			return fmt.Errorf("compare: switch to %s: %w", p.Name, err)
		}
	} else {
		if err := s.Gateway.PushModule(ctx, s.module, p.Plugin); err != nil {
			return fmt.Errorf("compare: switch to %s: %w", p.Name, err)
		}
	}
	if err := s.Gateway.PushCluster(ctx, p.Cluster); err != nil {
		return fmt.Errorf("compare: switch to %s: %w", p.Name, err)
	}
	return nil
}
