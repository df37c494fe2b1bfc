package lb

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Config is what a policy is built from. A policy serves one cluster. Health, Caches, Engines and Shares belong to the
// cluster and are shared by all its policies, so that they survive a change of the configuration.
type Config struct {
	Unit    Unit
	Cluster ClusterConfig
	Health  *Health       // for all policies
	Caches  *CacheTracker // for prefix_cache
	Cache   CacheConfig

	Engines *Engines // for endpoint_metrics and prefix_cache
	Engine  EngineConfig
	Shares  *RequestShares // for endpoint_metrics
}

// policies maps the configured lb_policy to its constructor.
var policies = map[string]func(Config) (Policy, error){
	"global_least_request": newLeastRequest,
	"prefix_cache":         newPrefixCache,
	"endpoint_metrics":     newEndpointMetrics,
}

// New returns the policy with the given name for one cluster, or an error that lists the known names.
func New(name string, c Config) (Policy, error) {
	build, ok := policies[name]
	if !ok {
		return nil, errors.New("lb: unknown policy " + strconv.Quote(name) + ", known: " + strings.Join(Names(), ", "))
	}
	return build(c)
}

// Names returns the names of the policies, sorted.
func Names() []string { return slices.Sorted(maps.Keys(policies)) }
