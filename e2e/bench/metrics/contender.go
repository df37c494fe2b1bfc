package metrics

import (
	"errors"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// Names of the contenders in the last line of the output.
const (
	nativeName = "least_request"
	countsName = "global_least_request"
	ownName    = "endpoint_metrics"
)

// contenders returns all, in the order of the table.
func contenders(extra bool) []compare.Policy {
	counts := compare.Warmgate
	counts.Name = countsName
	all := []compare.Policy{
		compare.LeastRequest, counts, compare.Plugin(ownName, ownName, "", compare.ByMetrics),
	}
	if extra {
		all = append(all, compare.Plugin(ownName+", tokens", ownName, `"unit":"tokens",`, compare.ByMetrics))
	}
	return all
}

// selected returns the contenders that the settings name, and the variants.
func (s settings) selected() ([]compare.Policy, error) {
	policies, err := bench.Named(contenders(s.extra || s.policies != ""), s.policies, func(p compare.Policy) string {
		return p.Name
	})
	if err != nil {
		return nil, err
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
