package lb

import (
	"math"
	"slices"
	"time"
)

// engineKey is what the costs of a list depend on, beside the engine samples.
type engineKey struct {
	first             *Candidate // of the source list
	cfg               *EngineConfig
	unit              Unit
	adapter           uint64
	weightsConfigured bool // the weights are configured and not learned
}

// engineList is a list of candidates with the costs of their engine samples.
type engineList struct {
	source     []Candidate // referenced, so that its address is not reused
	version    uint64      // of the samples
	validUntil time.Duration
	lastUsed   time.Duration
	result     []Candidate
	fresh      int // number of candidates with a fresh sample
}

// maxEngineLists and maxEngineCandidates bound the lists and the candidates in all of them: there is one per adapter
// and configuration, and while endpoints fail, nearly every outcome makes another.
const maxEngineLists, maxEngineCandidates = 256, 1 << 16

// applyCosts returns the candidates with the costs of their engine samples, and how many have a fresh sample. Without
// any, the candidates are unchanged. weightsConfigured prevents weights from being learned. The result is shared, and
// stays at the same address while its content is the same.
func (g *Engines) applyCosts(
	now time.Duration, cs []Candidate, cfg *EngineConfig, unit Unit, model string, weightsConfigured bool,
) ([]Candidate, int) {
	key := engineKey{&cs[0], cfg, unit, g.adapterID(model), weightsConfigured}
	l := g.lists[key]
	if l == nil {
		g.evictLists(len(cs))
		l = &engineList{source: cs}
		g.lists[key] = l
	}
	l.lastUsed = now
	if l.version == g.version && now < l.validUntil {
		return l.result, l.fresh
	}
	g.dropUnusedLists(now)
	out, fresh := g.computeCosts(now, cs, &key)
	if !slices.Equal(out, l.result) {
		l.result = g.pool.intern(now, out)
	}
	l.fresh, l.version, l.validUntil = fresh, g.version, now+refreshEvery
	return l.result, fresh
}

// dropUnusedLists deletes lists that are no longer in use.
func (g *Engines) dropUnusedLists(now time.Duration) {
	if now-g.sweptAt < unusedListTTL/10 {
		return
	}
	g.sweptAt = now
	clear(g.configs)
	for key, l := range g.lists {
		if now-l.lastUsed > unusedListTTL {
			delete(g.lists, key)
			continue
		}
		g.configs[*key.cfg] = key.cfg
	}
	g.pool.sweep(now)
}

// internConfig returns one pointer for all equal configurations, so that they share their lists.
func (g *Engines) internConfig(cfg *EngineConfig) *EngineConfig {
	if known := g.configs[*cfg]; known != nil {
		return known
	}
	g.configs[*cfg] = cfg
	return cfg
}

// evictLists deletes the least recently used lists until another one of n candidates fits.
func (g *Engines) evictLists(n int) {
	for _, l := range g.lists {
		n += len(l.source)
	}
	for len(g.lists) >= maxEngineLists || n > maxEngineCandidates && len(g.lists) > 0 {
		var oldest engineKey
		at := time.Duration(math.MaxInt64)
		for key, l := range g.lists {
			if l.lastUsed < at {
				oldest, at = key, l.lastUsed
			}
		}
		n -= len(g.lists[oldest].source)
		delete(g.lists, oldest)
	}
}
