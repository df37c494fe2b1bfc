package engines

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
)

// maxCostCandidates bounds the lists by the candidates in all of them: there is one per adapter and configuration, and
// while endpoints fail, nearly every outcome makes another.
const maxCostCandidates = 1 << 16

// costKey is what the costs of a list depend on, beside the engine samples.
type costKey struct {
	config            *Config
	source            uint64 // digest of the list
	unit              lb.Unit
	adapter           uint64
	weightsConfigured bool    // the weights are configured and not learned
	load              float64 // of the request, in tokens, where that of a typical one is not known yet, else 0
}

// costList is a list of candidates with the costs of their engine samples.
type costList struct {
	version    uint64 // of the samples
	validUntil time.Duration
	list       lb.List
	fresh      int // number of candidates with a fresh sample
}

// Samples is the latest engine samples of one cluster and what was learned from them. One VM has one per cluster,
// shared by all its policies, so that it survives a change of the configuration.
type Samples struct {
	OnUpdate func(now time.Duration) // called when there are new samples; nil for nobody
	// OnLoss is called with every update for each endpoint whose cache was lost at any time; nil for nobody.
	OnLoss func(addr string, at time.Duration)

	engines         map[string]*engine        // by address
	targets         []string                  // names of the metrics configured as targets
	adapters        map[uint64]time.Duration  // known adapters by digest: when a sample last listed them
	adapterRequests map[string]map[uint64]int // requests of this VM in flight, by address and adapter
	meanTokens      float64                   // load of a request in tokens, moving average
	version         uint64                    // changes with every sample and with adapterRequests
	configs         lb.EqualConfigs[*Config]
	lists           *recent.Cache[costKey, costList]
	ranksVersion    uint64 // of which there are
}

// New returns the samples of a cluster that has none yet.
func New() *Samples {
	return &Samples{
		engines: map[string]*engine{}, adapters: map[uint64]time.Duration{},
		adapterRequests: map[string]map[uint64]int{}, version: 1,
		lists: recent.New[costKey, costList](maxCostCandidates, lb.UnusedListTTL),
	}
}

// OneConfig returns one configuration for all equal ones, so that policies share what is computed for them.
func (g *Samples) OneConfig(cfg *Config) *Config {
	alone := *cfg // without what it is a part of
	return g.configs.One(&alone)
}

// Update replaces the samples, given by address, and the names of their targets. Endpoints without a sample are
// forgotten; a known sample has no effect.
func (g *Samples) Update(now time.Duration, targets []string, samples map[string]Sample) {
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
	g.ranksVersion = 0
	for addr, sample := range samples {
		if _, isRank := lb.RankOf(addr); isRank {
			g.ranksVersion += lb.EndpointHash(addr)
		}
		e := g.engines[addr]
		if e == nil {
			e = &engine{}
			g.engines[addr] = e
		}
		if e.At != sample.At {
			e.learn(&sample)
		}
		e.Sample = sample
		e.seen.follow(&sample)
		if sample.LostAt > 0 && g.OnLoss != nil {
			g.OnLoss(addr, sample.LostAt)
		}
		g.addAdapters(now, &sample.Loaded)
		g.addAdapters(now, &sample.Waiting)
	}
	if g.OnUpdate != nil {
		g.OnUpdate(now)
	}
	for id, at := range g.adapters {
		if now-at > adapterTTL {
			delete(g.adapters, id)
		}
	}
	g.version++
}

// Each calls f with the sample of each engine, and how many requests there no owner counts.
func (g *Samples) Each(f func(addr string, s *Sample, external float64)) {
	for addr, e := range g.engines {
		f(addr, &e.Sample, e.external)
	}
}

// AddAnswer notes the end of an answer that the endpoint has computed to a request placed there at the given time.
func (g *Samples) AddAnswer(now time.Duration, addr string, placed time.Duration) {
	if e := g.engines[addr]; e != nil && e.seen.answered == 0 && placed > e.seen.since {
		e.seen.answered = now
	}
}

// StandsStill returns the endpoints whose page was read although it did not show an answer that had ended longer than
// the given age before, unless the samples say so already.
func (g *Samples) StandsStill(age time.Duration) (addrs []string) {
	for addr, e := range g.engines {
		if w := &e.seen; !e.Frozen && w.mark != (PageMark{}) && w.answered > 0 && e.FreshAt-w.answered > age {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}
