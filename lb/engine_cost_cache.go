package lb

import (
	"math"
	"slices"
	"time"
)

// costKey is what the costs of a list depend on, beside the engine samples.
type costKey = listKey[*EngineConfig, costParams]

type costParams struct {
	first             *Candidate // of the source list
	unit              Unit
	adapter           uint64
	weightsConfigured bool // the weights are configured and not learned
}

// costList is a list of candidates with the costs of their engine samples.
type costList struct {
	source     []Candidate // referenced, so that its address is not reused
	version    uint64      // of the samples
	validUntil time.Duration
	result     []Candidate
	fresh      int // number of candidates with a fresh sample
}

// maxCostLists and maxCostCandidates bound the lists and the candidates in all of them: there is one per adapter and
// configuration, and while endpoints fail, nearly every outcome makes another.
const maxCostLists, maxCostCandidates = 256, 1 << 16

// applyCosts returns the candidates with the costs of their engine samples, and how many have a fresh sample. Without
// any, the candidates are unchanged. weightsConfigured prevents weights from being learned. The result is shared, and
// stays at the same address while its content is the same.
func (g *Engines) applyCosts(
	now time.Duration, cs []Candidate, cfg *EngineConfig, unit Unit, model string, weightsConfigured bool,
) ([]Candidate, int) {
	key := costKey{cfg, costParams{&cs[0], unit, g.adapterID(model), weightsConfigured}}
	l, added := g.lists.get(now, key)
	if added {
		l.source = cs
		g.evictLists(&key)
	}
	if l.version == g.version && now < l.validUntil {
		return l.result, l.fresh
	}
	g.lists.sweep(now)
	out, fresh := g.computeCosts(now, cs, &key)
	if slices.Equal(out, l.result) {
		out = l.result
	}
	l.result = g.lists.pool.intern(now, out) // also if it is the same, so that the pool retains it
	l.fresh, l.version, l.validUntil = fresh, g.version, now+refreshEvery
	return l.result, fresh
}

// evictLists deletes the least recently used lists, but not the latest one, until the others are within the bounds.
func (g *Engines) evictLists(latest *costKey) {
	lists, n := g.lists.results, 0
	for _, l := range lists {
		n += len(l.value.source)
	}
	for len(lists) > maxCostLists || n > maxCostCandidates && len(lists) > 1 {
		var oldest costKey
		at := time.Duration(math.MaxInt64)
		for key, l := range lists {
			if l.lastUsed < at && key != *latest {
				oldest, at = key, l.lastUsed
			}
		}
		n -= len(lists[oldest].value.source)
		delete(lists, oldest)
	}
}
