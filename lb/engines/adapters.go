package engines

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
func (g *Samples) addAdapters(now time.Duration, list *metrics.Adapters) {
	for _, id := range list.IDs[:list.N] {
		if _, ok := g.adapters[id]; ok || len(g.adapters) < maxAdapters {
			g.adapters[id] = now
		}
	}
}

// HasAdapters reports whether any adapters are known.
func (g *Samples) HasAdapters() bool { return len(g.adapters) > 0 }

// adapterID returns the digest of the model's name if it is a known adapter, else 0.
func (g *Samples) adapterID(model string) uint64 {
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
func (g *Samples) AddRequest(model, addr string, tokens int64) (adapter uint64) {
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
func (g *Samples) RemoveRequest(adapter uint64, addr string) {
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

// learnMeanTokens learns from the load of a request in tokens, 0 where tokens are not counted.
func (g *Samples) learnMeanTokens(tokens int64) {
	const gain = 1.0 / 16 // weight of the newest request
	if tokens <= 0 {
		return
	}
	if g.meanTokens == 0 {
		g.meanTokens = float64(tokens)
	}
	g.meanTokens += (float64(tokens) - g.meanTokens) * gain
}
