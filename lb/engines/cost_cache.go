package engines

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// ApplyCosts returns the candidates with the costs of their engine samples, and how many have a fresh sample. Without
// any, the candidates are unchanged. weightsConfigured prevents weights from being learned.
func (g *Samples) ApplyCosts(
	now time.Duration, source lb.List, cfg *Config, unit lb.Unit, model string, weightsConfigured bool,
) (lb.List, int) {
	key := costKey{cfg, source.Digest(), unit, g.adapterID(model), weightsConfigured}
	l, known := g.lists.Get(now, key)
	if !known || l.version != g.version || now >= l.validUntil {
		cs, fresh := g.computeCosts(now, source.Candidates, &key)
		l = costList{g.version, now + lb.RefreshEvery, lb.NewList(cs), fresh}
		g.lists.PutSized(now, key, l, lb.CachedSize(source))
	}
	return l.list, l.fresh
}
