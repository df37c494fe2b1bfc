package lb

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Config is what a policy is built from. A policy serves one cluster.
type Config struct {
	Unit    Unit
	Cluster ClusterConfig
	Health  *Health       // of the cluster; shared by all policies of it
	Caches  *CacheTracker // of the cluster; shared by all policies of it, needed by prefix_cache
	Cache   CacheConfig

	Engines *Engines // of the cluster; shared by all policies of it, needed by endpoint_metrics and prefix_cache
	Engine  EngineConfig
	Shares  *RequestShares // of the cluster; shared by all policies of it, needed by endpoint_metrics
}

// policies is the table of policies: lb_policy to constructor.
var policies = map[string]func(Config) (Policy, error){
	"global_least_request": newLeastRequest,
	"prefix_cache":         newPrefixCache,
	"endpoint_metrics":     newEndpointMetrics,
}

// New returns the policy of the given name for one cluster.
func New(name string, c Config) (Policy, error) {
	build, ok := policies[name]
	if !ok {
		return nil, errors.New("lb: unknown policy " + strconv.Quote(name) + ", known: " + strings.Join(Names(), ", "))
	}
	return build(c)
}

// Names returns the names of the policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(policies)) }
