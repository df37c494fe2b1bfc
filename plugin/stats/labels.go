package stats

import "github.com/warmgate/warmgate/internal/statname"

// OfCluster returns the name of a cluster's statistic. It is not inlined, for the size of the artifacts.
//
//go:noinline
func OfCluster(stat, cluster string) string { return statname.With(stat, "cluster", cluster) }

// OfEndpoint returns the name of an endpoint's statistic.
func OfEndpoint(stat, cluster, endpoint string) string {
	return statname.With(stat, "cluster", cluster, "endpoint", endpoint)
}

// OfClass returns the name of a statistic of a class of a cluster's queue.
func OfClass(stat, cluster, class string) string {
	return statname.With(stat, "cluster", cluster, "class", class)
}

// ofModel returns the name of a statistic of a model of a cluster.
func ofModel(stat, cluster, model string) string {
	return statname.With(stat, "cluster", cluster, "model", model)
}

// ofKind returns the name of a statistic with a kind.
func ofKind(stat, kind string) string { return statname.With(stat, "kind", kind) }

func ofPolicy(name string) string { return statname.With(Policy, "policy", name) }
