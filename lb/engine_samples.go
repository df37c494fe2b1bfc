package lb

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/metrics"
)

// maxSampleGap is the time between two scrapes above which no rates are learned from them.
const maxSampleGap = 5 * time.Minute

// EngineSample is the metrics of one endpoint's engine at one time: the latest scrape, updated by later load reports.
type EngineSample struct {
	metrics.Snapshot
	At        time.Duration // time of the latest scrape or load report
	ScrapedAt time.Duration // time of the latest scrape: load reports contain a few fields only
	FreshAt   time.Duration // when the sample was last known to be up to date
	Inflight  Load          // in flight on the endpoint at that time, over all owners
	Counted   bool          // Inflight is known
	Page      uint64        // digest of the scraped page, 0 for none
	Frozen    bool          // the page stands still, though the endpoint has answered: engine_frozen.go
}

// engine is the latest sample of one engine and what was learned from all of them.
type engine struct {
	EngineSample
	seen          seen
	external      float64                     // requests that no owner counts: the lower of the last two samples
	lastExternal  float64                     // the same by the latest sample alone
	batchSize     float64                     // requests that run before others wait, 0 if unknown
	recentTokens  float64                     // generated tokens without the first of each answer, decaying
	recentSeconds float64                     // time between these tokens, summed over all answers, decaying
	rates         [metrics.MaxTargets]float64 // growth of targets that are counters, per second
	ratesKnown    uint32                      // bit i: rates[i] is known
}

// Engines is the latest engine samples of one cluster and what was learned from them. One VM has one per cluster,
// shared by all its policies, so that it survives a change of the configuration.
type Engines struct {
	OnUpdate func(now time.Duration) // called when there are new samples; nil for nobody

	engines         map[string]*engine        // by address
	targets         []string                  // names of the metrics configured as targets
	adapters        map[uint64]time.Duration  // known adapters by digest: when a sample last listed them
	adapterRequests map[string]map[uint64]int // requests of this VM in flight, by address and adapter
	meanTokens      float64                   // load of a request in tokens, moving average
	version         uint64                    // changes with every sample and with adapterRequests
	configs         EqualConfigs[*EngineConfig]
	lists           *recent.Cache[costKey, costList]
}

// NewEngines returns the engines of a cluster without samples.
func NewEngines() *Engines {
	return &Engines{
		engines: map[string]*engine{}, adapters: map[uint64]time.Duration{},
		adapterRequests: map[string]map[uint64]int{}, version: 1,
		lists: recent.New[costKey, costList](maxCostCandidates, UnusedListTTL),
	}
}

// OneConfig returns one configuration for all equal ones, so that policies share what is computed for them.
func (g *Engines) OneConfig(cfg *EngineConfig) *EngineConfig { return g.configs.One(cfg) }

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
		e.seen.follow(&sample)
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
func (g *Engines) Each(f func(addr string, s *EngineSample, external float64)) {
	for addr, e := range g.engines {
		f(addr, &e.EngineSample, e.external)
	}
}

// learn updates what follows from the difference between the latest sample and next.
func (e *engine) learn(next *EngineSample) {
	e.learnExternal(next)
	if next.ScrapedAt == e.ScrapedAt {
		return
	}
	e.learnBatchSize(next)
	seconds := (next.ScrapedAt - e.ScrapedAt).Seconds()
	if e.ScrapedAt > 0 && seconds > 0 && next.ScrapedAt-e.ScrapedAt <= maxSampleGap {
		e.learnTargetRates(next, seconds)
		e.learnSpeed(next, seconds)
	}
}

// counterPair returns a counter in the latest sample and in next. It is not ok if one of them lacks it, or if it has
// been reset by a restart of the engine.
func (e *engine) counterPair(next *EngineSample, f metrics.Field) (then, now float64, ok bool) {
	then, ok1 := e.Value(f)
	now, ok2 := next.Value(f)
	return then, now, ok1 && ok2 && now >= then
}

// orZero returns a field, 0 if it is missing.
func (s *EngineSample) orZero(f metrics.Field) float64 {
	v, _ := s.Value(f)
	return v
}

// asleep reports whether the engine reports that it serves no requests.
func (e *engine) asleep() bool {
	awake, ok := e.Value(metrics.Awake)
	return ok && awake == 0
}
