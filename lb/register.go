package lb

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Config is what a policy is built from. A policy serves one cluster.
type Config struct {
	Unit    Unit
	Cluster ClusterConfig
	Health  *Health // of the cluster; shared by all policies of it
	Caches  *Caches // of the cluster; shared by all policies of it, needed by prefix_cache
	Cache   CacheConfig

	Engines *Engines // of the cluster; shared by all policies of it, needed by endpoint_metrics and prefix_cache
	Engine  EngineConfig
	Shares  *Shares // of the cluster; shared by all policies of it, needed by endpoint_metrics

	Settings any // of the policy's own keys: see [Descriptor.Settings]; nil for their zero value
}

// New returns the policy of the given name for one cluster.
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
