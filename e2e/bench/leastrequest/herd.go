package leastrequest

import (
	"context"
	"fmt"
	"strings"

	"github.com/warmgate/warmgate/e2e/bench"
	"github.com/warmgate/warmgate/e2e/bench/compare"
)

// herdPolicies are compared under a herd: all of the traffic's, and ours with enough time to reserve on this machine.
func (s settings) herdPolicies() []compare.Policy {
	if s.herd == 0 || s.gateways < 2 {
		return nil
	}
	return append(s.policies(), compare.Patient)
}

// herds plays a herd in every round under each policy, and returns the differences between the servers' requests, by
// policy and round.
func herds(ctx context.Context, stage *compare.Stage, s settings) ([][]float64, error) {
	policies := s.herdPolicies()
	return bench.Rounds(s.Rounds, len(policies), nil, func(round, i int) (float64, error) {
		if err := stage.Switch(ctx, policies[i]); err != nil {
			return 0, err
		}
		n, err := stage.Herd(ctx, s.herd)
		if err != nil {
			return 0, fmt.Errorf("a herd under %s: %w", policies[i].Name, err)
		}
		fmt.Printf("round %d  %-16s a herd of %d leaves the servers %d requests apart\n", round+1,
			policies[i].Name, s.herd, n)
		return float64(n), nil
	})
}

// herdLine returns the result in one line.
func (rep *report) herdLine() string {
	var parts []string
	for i, p := range rep.settings.herdPolicies() {
		parts = append(parts, p.Name+" "+bench.SpreadOf(rep.apart[i]).Format("%.0f"))
	}
	return fmt.Sprintf("herd: %d requests at the same moment through all gateways; most less least in flight at a "+
		"server, median (min..max): %s",
		rep.settings.herd, strings.Join(parts, ", "))
}
