package streamtest

import (
	"cmp"
	"slices"
	"testing"
)

// Run runs the scenarios of the given groups, of all when none is given, each on a gateway of its own.
func Run(t *testing.T, open Open, groups ...string) {
	for _, group := range []struct {
		name      string
		scenarios []scenario
	}{
		{"balance", balanceScenarios},
		{"balance", subsetScenarios},
		{"end", endScenarios},
		{"body", bodyScenarios},
		{"protocol", protocolScenarios},
		{"native", nativeScenarios},
		{"config", configScenarios},
		{"health", healthScenarios},
		{"blame", blameScenarios},
		{"answer", answerScenarios},
		{"view", viewScenarios},
		{"prefix", prefixScenarios},
		{"prefix", apiScenarios},
		{"metrics", metricsScenarios},
		{"ranks", rankScenarios},
		{"queue", queueScenarios},
		{"queue", hintScenarios},
		{"session", sessionScenarios},
		{"admission", admissionScenarios},
		{"budget", budgetScenarios},
		{"inspect", inspectScenarios},
		{"calls", callScenarios},
		{"facts", factScenarios},
		{"facts", modelScenarios},
		{"held", heldScenarios},
	} {
		if len(groups) > 0 && !slices.Contains(groups, group.name) {
			continue
		}
		for _, s := range group.scenarios {
			t.Run(group.name+"/"+s.name, func(t *testing.T) { start(t, open, s) })
		}
	}
}

// start opens a gateway, brings it to where the scenario begins and runs that.
func start(t *testing.T, open Open, s scenario) {
	g := open(t, Options{Unconfigured: s.bare})
	for _, a := range s.needs {
		if why := g.Lacks(a); why != "" {
			t.Skip(why)
		}
	}
	r := &run{
		TB: t, Gateway: g, stats: &stats{t: t, gateway: g, before: map[string]uint64{}},
		policy: cmp.Or(s.policy, leastRequest),
	}
	list := s.list
	for range s.endpoints {
		list = append(list, Endpoint{})
	}
	r.SetEndpoints(list)
	r.size = len(list)
	if !s.bare {
		r.apply(s.config)
	}
	if s.policy == prefixCache || s.policy == consistentHash || slices.Contains(s.needs, SecondHop) {
		r.warm()
		r.wantDrained()
	}
	s.run(r)
}
