package config

import (
	"slices"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb/policy"
)

const keyBudgetTargets = "lb_config.targets"

// Budget returns the settings of a policy with budgets, nil for any other.
func (c *Config) Budget() *policy.BudgetConfig {
	b, _ := c.Settings().(*policy.BudgetConfig)
	return b
}

// checkTargets compares the names of targets with what is chosen among, as far as that is known: all targets that are
// clusters, unless these are listed.
func (pt *part) checkTargets() {
	b := pt.Budget()
	if b == nil {
		return
	}
	pt.idle([]string{"lb_config.weights"}, "has no effect on shares with lb_policy token_budget: targets have weights")
	listed, fixed := pt.written[keyClusters], len(pt.EnvoyCfg.Endpoints) > 0
	for _, name := range b.Names() {
		problem := ""
		switch _, isAddress := canonicalAddress(name); {
		case !pt.AmongClusters() && !isAddress:
			problem = `not an address, want "ip:port"; with lb_type "cluster" the name of a cluster`
		case !pt.AmongClusters() && fixed && !slices.ContainsFunc(pt.EnvoyCfg.Endpoints, func(e StaticEndpoint) bool {
			return e.Addr == name
		}):
			problem = "not in envoy.endpoints"
		case !pt.AmongClusters():
		case !isClusterName(name):
			problem = "no name of a cluster" + wantCluster
		case !listed:
			pt.Clusters.List = append(pt.Clusters.List, name)
		case !slices.Contains(pt.Clusters.List, name):
			problem = "not in service_list" + DidYouMean(name, pt.Clusters.List)
		}
		if problem != "" {
			pt.badKey(keyBudgetTargets+"["+quote(name)+"]", problem)
		}
	}
	if !listed {
		order.Up(pt.Clusters.List)
	}
}
