//go:build !benchpolicies

package config

// rivals are policies that endpoint_metrics is compared with in benchmarks.
var rivals []string
