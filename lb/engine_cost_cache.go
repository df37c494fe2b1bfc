package lb

import "time"

// costKey is what the costs of a list depend on, beside the engine samples.
type costKey struct {
	config            *EngineConfig
	source            uint64 // digest of the list
	unit              Unit
	adapter           uint64
	weightsConfigured bool // the weights are configured and not learned
}

// costList is a list of candidates with the costs of their engine samples.
type costList struct {
	version    uint64 // of the samples
	validUntil time.Duration
	list       List
	fresh      int // number of candidates with a fresh sample
}

// maxCostCandidates bounds the lists by the candidates in all of them: there is one per adapter and configuration, and
// while endpoints fail, nearly every outcome makes another.
const maxCostCandidates = 1 << 16

// applyCosts returns the candidates with the costs of their engine samples, and how many have a fresh sample. Without
// any, the candidates are unchanged. weightsConfigured prevents weights from being learned.
func (g *Engines) ApplyCosts(
	now time.Duration, source List, cfg *EngineConfig, unit Unit, model string, weightsConfigured bool,
) (List, int) {
	key := costKey{cfg, source.Digest(), unit, g.adapterID(model), weightsConfigured}
	l, known := g.lists.Get(now, key)
	if !known || l.version != g.version || now >= l.validUntil {
		cs, fresh := g.computeCosts(now, source.Candidates, &key)
		l = costList{g.version, now + RefreshEvery, NewList(cs), fresh}
		g.lists.PutSized(now, key, l, CachedSize(source))
	}
	return l.list, l.fresh
}
