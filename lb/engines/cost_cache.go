package engines

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// ApplyCosts returns the plan's candidates with the costs of their engine samples, and how many have a fresh sample.
// Without any, the candidates are unchanged. weightsConfigured prevents weights from being learned.
func (g *Samples) ApplyCosts(
	now time.Duration, plan *lb.Plan, cfg *Config, model string, weightsConfigured bool,
) (lb.List, int) {
	source := plan.List
	key := costKey{
		config: cfg, source: source.Digest(), unit: plan.Unit, adapter: g.adapterID(model),
		weightsConfigured: weightsConfigured,
	}
	if plan.Unit == lb.Tokens && g.meanTokens == 0 {
		key.load = lb.RoundDigits(max(1, plan.Added()), 1) // coarsely: each has a list of its own
	}
	l, known := g.lists.Get(now, key)
	if !known || l.version != g.version || now >= l.validUntil {
		cs, fresh := g.computeCosts(now, source.Candidates, &key)
		l = costList{g.version, now + lb.RefreshEvery, lb.NewList(cs), fresh}
		g.lists.PutSized(now, key, l, lb.CachedSize(source))
	}
	return l.list, l.fresh
}
