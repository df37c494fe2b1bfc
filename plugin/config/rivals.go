//go:build benchpolicies

package config

// rivals are policies that endpoint_metrics is compared with in benchmarks. No artifact that is shipped has them.
var rivals = []string{"endpoint_metrics_uncorrected", "filter_tree_2024"}
