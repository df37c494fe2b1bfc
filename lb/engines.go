package lb

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/metrics"
)

// EngineSample is the metrics of one endpoint's engine at one time: the latest scrape, updated by later load reports.
type EngineSample struct {
	metrics.Snapshot
	At        time.Duration // time of the latest scrape or load report
	ScrapedAt time.Duration // time of the latest scrape: load reports contain a few fields only
	FreshAt   time.Duration // when the sample was last known to be up to date
	Inflight  Load          // in flight on the endpoint at that time, over all owners
	Counted   bool          // Inflight is known
	Page      uint64        // digest of the scraped page, 0 for none
}

const (
	// adapterTTL is how long an adapter is known that no engine lists any more.
	adapterTTL = 10 * time.Minute
	// maxAdapters bounds the known adapters. Their names come from engines, which may get them from clients.
	maxAdapters = 1024
)

// Engines is the latest engine samples of one cluster and what was learned from them. One VM has one per cluster,
// shared by all its policies, so that it survives a change of the configuration.
type Engines struct {
	engines         map[string]*engine        // by address
	targets         []string                  // names of the metrics configured as targets
	adapters        map[uint64]time.Duration  // known adapters by digest: when a sample last listed them
	adapterRequests map[string]map[uint64]int // requests of this VM in flight, by address and adapter
	meanTokens      float64                   // load of a request in tokens, moving average
	version         uint64                    // changes with every sample and with adapterRequests
	lists           map[engineKey]*engineList
	configs         map[EngineConfig]*EngineConfig // interned configurations
	pool            listPool
	sweptAt         time.Duration // when unused lists were last deleted
}

// NewEngines returns the engines of a cluster without samples.
func NewEngines() *Engines {
	return &Engines{
		engines: map[string]*engine{}, adapters: map[uint64]time.Duration{},
		adapterRequests: map[string]map[uint64]int{}, version: 1,
		lists: map[engineKey]*engineList{}, configs: map[EngineConfig]*EngineConfig{},
	}
}

// Update replaces the samples, given by address, and the names of their targets. Endpoints without a sample are
// forgotten; a known sample has no effect.
func (g *Engines) Update(now time.Duration, targets []string, samples map[string]EngineSample) {
	if !slices.Equal(g.targets, targets) { // previous values belong to other metrics
		for _, e := range g.engines {
			e.ScrapedAt, e.ratesKnown = 0, 0
		}
		g.targets = targets
	}
	for addr := range g.engines {
		if _, ok := samples[addr]; !ok {
			delete(g.engines, addr)
		}
	}
	for addr, sample := range samples {
		e := g.engines[addr]
		if e == nil {
			e = &engine{}
			g.engines[addr] = e
		}
		if e.At != sample.At {
			e.learn(&sample)
		}
		e.EngineSample = sample
		g.addAdapters(now, &sample.Loaded)
		g.addAdapters(now, &sample.Waiting)
	}
	for id, at := range g.adapters {
		if now-at > adapterTTL {
			delete(g.adapters, id)
		}
	}
	g.version++
}

// addAdapters records that an engine lists adapters. Beyond maxAdapters new ones are ignored.
func (g *Engines) addAdapters(now time.Duration, list *metrics.Adapters) {
	for _, id := range list.IDs[:list.N] {
		if _, ok := g.adapters[id]; ok || len(g.adapters) < maxAdapters {
			g.adapters[id] = now
		}
	}
}

// AddRequest records that a request for a model was placed on an endpoint. tokens is its load, 0 where tokens are not
// counted. It returns the adapter that the request is counted for, to be passed to RemoveRequest; 0 for none.
func (g *Engines) AddRequest(model, addr string, tokens int64) (adapter uint64) {
	const gain = 1.0 / 16 // weight of the newest request
	if tokens > 0 {
		if g.meanTokens == 0 {
			g.meanTokens = float64(tokens)
		}
		g.meanTokens += (float64(tokens) - g.meanTokens) * gain
	}
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

// HasAdapters reports whether any adapters are known.
func (g *Engines) HasAdapters() bool { return len(g.adapters) > 0 }

// CountFresh returns how many endpoints have a sample that is not older than the given age.
func (g *Engines) CountFresh(now, age time.Duration) int {
	n := 0
	for _, e := range g.engines {
		if e.fresh(now, age) {
			n++
		}
	}
	return n
}

// CountMissing returns how many of the endpoints with a fresh sample lack one of the fields.
func (g *Engines) CountMissing(now, age time.Duration, fields ...metrics.Field) int {
	n := 0
	for _, e := range g.engines {
		if !e.fresh(now, age) {
			continue
		}
		for _, f := range fields {
			if _, ok := e.Value(f); !ok {
				n++
				break
			}
		}
	}
	return n
}
