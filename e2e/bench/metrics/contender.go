package metrics

import (
	"context"
	"errors"
	"fmt"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
	"github.com/warmgate/warmgate/e2e/harness"
)

// Names of the contenders in the last line of the output.
const (
	nativeName      = "least_request"
	countsName      = "global_least_request"
	ownName         = "endpoint_metrics"
	uncorrectedName = "endpoint_metrics_uncorrected"
	treeName        = "filter_tree_2024"
)

// benchHost is Warmgate with the policies that are there only to be compared with.
const benchHost harness.Host = "envoy-bench"

// contenders returns all, in the order of the table.
func contenders(extra bool) []compare.Policy {
	counts := compare.Warmgate
	counts.Name = countsName
	all := []compare.Policy{
		compare.LeastRequest, counts, byMetrics(ownName, ""), byMetrics(uncorrectedName, ""), byMetrics(treeName, ""),
	}
	if extra {
		tokens := byMetrics(ownName, `"unit":"tokens",`)
		tokens.Name += ", tokens"
		all = append(all, tokens)
	}
	return all
}

// byMetrics is a policy that uses the metrics of the servers; more are further members of its configuration.
func byMetrics(policy, more string) compare.Policy {
	return compare.Plugin(policy, policy, more, compare.ByMetrics)
}

// benchOnly reports whether the shipped module does not have the policy.
func benchOnly(name string) bool { return name == uncorrectedName || name == treeName }

// selected returns the contenders that the settings name, and the variants.
func (s settings) selected(ctx context.Context) ([]compare.Policy, error) {
	policies, err := bench.Named(contenders(s.extra || s.policies != ""), s.policies, func(p compare.Policy) string {
		return p.Name
	})
	if err != nil {
		return nil, err
	}
	for i := range policies {
		if !benchOnly(policies[i].Name) {
			continue
		}
		if policies[i].Module, err = harness.Wasm(ctx, benchHost); err != nil {
			return nil, fmt.Errorf("%s: %w", policies[i].Name, err)
		}
	}
	policies = append(policies, s.variants...)
	if len(policies) == 0 {
		return nil, errors.New("no policy to play")
	}
	return policies, nil
}

func names(policies []compare.Policy) []string {
	return bench.Names(policies, func(p compare.Policy) string { return p.Name })
}
