package lb

import (
	"errors"
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

	Settings any // of the policy's own keys: see [Descriptor.Settings]; nil for their zero value
}

// New returns the policy with the given name for one cluster, or an error that lists the known names.
func New(name string, c Config) (Policy, error) {
	d := Describe(name)
	if d.New == nil {
		return nil, errors.New("lb: unknown policy " + strconv.Quote(name) + ", known: " + strings.Join(Names(), ", "))
	}
	if c.Settings == nil && d.Settings != nil {
		c.Settings = d.Settings()
	}
	return d.New(c)
}

// Names returns the names of the policies, sorted, without aliases.
func Names() []string {
	var names []string
	for _, d := range registry {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}
