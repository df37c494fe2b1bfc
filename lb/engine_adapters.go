package lb

import (
	"time"

	"github.com/warmgate/warmgate/metrics"
)

const (
	// adapterTTL is how long an adapter is known that no engine lists any more.
	adapterTTL = 10 * time.Minute
	// maxAdapters bounds the known adapters. Their names come from engines, which may get them from clients.
	maxAdapters = 1024
)

// addAdapters records that an engine lists adapters. Beyond maxAdapters new ones are ignored.
func (g *Engines) addAdapters(now time.Duration, list *metrics.Adapters) {
	for _, id := range list.IDs[:list.N] {
		if _, ok := g.adapters[id]; ok || len(g.adapters) < maxAdapters {
			g.adapters[id] = now
		}
	}
}

// HasAdapters reports whether any adapters are known.
func (g *Engines) HasAdapters() bool { return len(g.adapters) > 0 }

// adapterID returns the digest of the model's name if it is a known adapter, else 0.
func (g *Engines) adapterID(model string) uint64 {
	if model == "" || len(g.adapters) == 0 {
		return 0
	}
	id := metrics.AdapterID(model)
	if _, ok := g.adapters[id]; !ok {
		return 0
	}
	return id
}

// AddRequest records that a request for a model was placed on an endpoint. tokens is its load, 0 where tokens are not
// counted. It returns the adapter that the request is counted for, to be passed to RemoveRequest; 0 for none.
func (g *Engines) AddRequest(model, addr string, tokens int64) (adapter uint64) {
	g.learnMeanTokens(tokens)
	id := g.adapterID(model)
	if id == 0 {
		return 0
	}
	at := g.adapterRequests[addr]
	if at == nil {
		at = map[uint64]int{}
		g.adapterRequests[addr] = at
	}
	if at[id]++; at[id] == 1 {
		g.version++
	}
	return id
}

// RemoveRequest records that a request counted for an adapter has left its endpoint.
func (g *Engines) RemoveRequest(adapter uint64, addr string) {
	at := g.adapterRequests[addr]
	if at[adapter] == 0 {
		return
	}
	if at[adapter]--; at[adapter] > 0 {
		return
	}
	g.version++
	if delete(at, adapter); len(at) == 0 {
		delete(g.adapterRequests, addr)
	}
}

// loraCost returns the cost of the request's adapter, from 0 if it is in the batch to 1 if it must replace another one.
// Engines list adapters whose requests run, with a delay; so what this VM has placed there counts at once.
func (m *costModel) loraCost(e *engine, addr string) float64 {
	const free, queued = 0.2, 0.4 // costs if there is a free slot, and if it waits for one already
	placed := m.cluster.adapterRequests[addr]
	if m.adapter == 0 || e.Loaded.Has(m.adapter) || placed[m.adapter] > 0 {
		return 0
	}
	loaded := e.Loaded.N
	for id := range placed {
		if !e.Loaded.Has(id) {
			loaded++
		}
	}
	slots, ok := e.Value(metrics.MaxAdapters)
	switch {
	case !ok || float64(loaded) < slots:
		return free
	case e.Waiting.Has(m.adapter): // never with vLLM, whose two lists are always equal
		return queued
	}
	return 1
}
