package lb

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/metrics"
)

// EngineSample is what the engine of one endpoint said of itself.
type EngineSample struct {
	metrics.Snapshot
	At        time.Duration // when it said so
	ScrapedAt time.Duration // when it said what is not in load reports
	FreshAt   time.Duration // when that was last known to be the latest it has said
	Inflight  Load          // what was in flight there then, over all owners
	Counted   bool          // Inflight is known
	Page      uint64        // digest of the page that said it, 0 for none
}

const (
	// speedWindow is for how long the speed of an engine is remembered.
	speedWindow = time.Minute
	// maxSampleGap is the time between two readings above which nothing is learned from them.
	maxSampleGap = 5 * time.Minute
	// minSpeedTokens is how many tokens tell the speed of an engine.
	minSpeedTokens = 200
	// speedNoise is by what factor engines may seem to differ that are alike: their batches differ.
	speedNoise = 1.25
	// maxTokenRate is a speed, in tokens a second for each request, that no engine has.
	maxTokenRate = 1e6
	// minRelativeSpeed and mostSpeed bound the capacity that is learned, relative to that of the engine in the middle.
	minRelativeSpeed, maxRelativeSpeed = 1.0 / 8, 8
	// minKVUse is the use of the KV cache from which on it shows how many requests fit, and kvFull is the use at which an
	// engine is taken to make requests wait: those that run grow.
	minKVUse, fullKVUse = 0.2, 0.95
	// adapterTTL is for how long an adapter is known that no engine tells of any more.
	adapterTTL = 10 * time.Minute
	// maxAdapters is how many adapters are known. Their names come from engines, which may be told them by clients.
	maxAdapters = 1024
)

// Engines is what the engines of one cluster have said. One VM has one per cluster, shared by all policies of it; what
// it learns from the readings survives a change of the configuration.
type Engines struct {
	engines         map[string]*engine
	targets         []string                  // names of the readings' targets
	adapters        map[uint64]time.Duration  // that engines have told of, and when they last did
	adapterRequests map[string]map[uint64]int // requests of this VM in flight, by endpoint and adapter
	meanTokens      float64                   // tokens of a request, moving average
	version         uint64                    // of what follows from readings and placements
	lists           map[engineKey]*engineList
	configs         map[EngineConfig]*EngineConfig // in use
	pool            listPool
	sweptAt         time.Duration // when lists that are not used were last looked for
}

// engine is what is known of one.
type engine struct {
	EngineSample
	external      float64                     // requests there that nobody here counts
	lastExternal  float64                     // the same by the last reading alone
	batchSize     float64                     // requests that run at once before others wait, 0 while that is not known
	recentTokens  float64                     // of answers of late, but the first of each
	recentSeconds float64                     // seconds that each request waited for those, summed
	rates         [metrics.MaxTargets]float64 // of targets that are counters, per second
	ratesKnown    uint32                      // bit i: rates[i] is known
}

// NewEngines returns the engines of a cluster of which nothing is known.
func NewEngines() *Engines {
	return &Engines{
		engines: map[string]*engine{}, adapters: map[uint64]time.Duration{}, adapterRequests: map[string]map[uint64]int{}, version: 1,
		lists: map[engineKey]*engineList{}, configs: map[EngineConfig]*EngineConfig{},
	}
}

// Update takes over the readings of a cluster, by address, with the names of their targets. It may be given what it has
// already, and forgets whom it is not given.
func (g *Engines) Update(now time.Duration, targets []string, readings map[string]EngineSample) {
	if !slices.Equal(g.targets, targets) { // what the values before were of is not what they are of now
		for _, e := range g.engines {
			e.ScrapedAt, e.ratesKnown = 0, 0
		}
		g.targets = targets
	}
	for addr := range g.engines {
		if _, ok := readings[addr]; !ok {
			delete(g.engines, addr)
		}
	}
	for addr, r := range readings {
		e := g.engines[addr]
		if e == nil {
			e = &engine{}
			g.engines[addr] = e
		}
		if e.At != r.At {
			e.learn(&r)
		}
		e.EngineSample = r
		for _, list := range [2]*metrics.Adapters{&r.Loaded, &r.Waiting} {
			for _, id := range list.IDs[:list.N] {
				g.addAdapter(now, id)
			}
		}
	}
	for id, at := range g.adapters {
		if now-at > adapterTTL {
			delete(g.adapters, id)
		}
	}
	g.version++
}

// addAdapter notes that an engine has told of an adapter.
func (g *Engines) addAdapter(now time.Duration, id uint64) {
	if _, ok := g.adapters[id]; ok || len(g.adapters) < maxAdapters {
		g.adapters[id] = now
	}
}

// AddRequest tells that a request of so many tokens for a model goes to an endpoint. It returns the adapter that it is
// counted for, which Left wants to know, 0 for none.
func (g *Engines) AddRequest(model, addr string, tokens int64) (adapter uint64) {
	const newest = 1.0 / 16
	if tokens > 0 { // where they are counted
		if g.meanTokens == 0 {
			g.meanTokens = float64(tokens)
		}
		g.meanTokens += (float64(tokens) - g.meanTokens) * newest
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

// RemoveRequest tells that a request that was counted for an adapter has left its endpoint.
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

// adapterID returns the digest of the model's name if it is an adapter that engines have told of, else 0.
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

// HasAdapters says whether engines have told of adapters.
func (g *Engines) HasAdapters() bool { return len(g.adapters) > 0 }

// CountFresh returns of how many endpoints there is a reading that is not older than the given age.
func (g *Engines) CountFresh(now, age time.Duration) int {
	n := 0
	for _, e := range g.engines {
		if e.fresh(now, age) {
			n++
		}
	}
	return n
}

// CountMissing returns how many of the endpoints with a fresh reading do not tell one of the fields.
func (g *Engines) CountMissing(now, age time.Duration, fields ...metrics.Field) int {
	n := 0
	for _, e := range g.engines {
		if !e.fresh(now, age) {
			continue
		}
		for _, f := range fields {
			if _, told := e.Value(f); !told {
				n++
				break
			}
		}
	}
	return n
}

func (e *engine) fresh(now, age time.Duration) bool { return e != nil && now-e.FreshAt <= age }

// value returns a field of the latest reading, 0 if it did not have it.
func (e *engine) value(f metrics.Field) float64 {
	v, _ := e.Value(f)
	return v
}

// queuedRequests returns how many requests wait for room.
func queuedRequests(l *metrics.Snapshot) float64 {
	waiting, _ := l.Value(metrics.Waiting)
	deferred, _ := l.Value(metrics.Deferred)
	return max(0, waiting-deferred)
}

// asleep says whether the engine has said that it serves no requests.
func (e *engine) asleep() bool {
	awake, told := e.Value(metrics.Awake)
	return told && awake == 0
}

// learn compares the reading with the one before.
func (e *engine) learn(r *EngineSample) {
	running, _ := r.Value(metrics.Running)
	// What was reserved a moment ago is not in the engine's numbers yet, and what has just ended may still be: only
	// what two readings in a row have too many is somebody else's. With pages, what runs is known from the latest; a
	// load report says nothing new of it.
	if _, whole := r.Value(metrics.Running); r.ScrapedAt != e.ScrapedAt || r.ScrapedAt == 0 || !whole {
		beyond := 0.0
		if r.Counted {
			beyond = max(0, running+queuedRequests(&r.Snapshot)-float64(r.Inflight.Requests))
		}
		e.external, e.lastExternal = min(beyond, e.lastExternal), beyond
	}
	if r.ScrapedAt != e.ScrapedAt {
		e.learnBatchSize(running, queuedRequests(&r.Snapshot))
		e.learnRates(r)
	}
}

// learnBatchSize takes into account how many requests ran while others waited.
func (e *engine) learnBatchSize(running, waits float64) {
	switch {
	case waits > 0 && e.batchSize == 0 && running > 0:
		e.batchSize = running
	case waits > 0 && running > 0:
		e.batchSize += (running - e.batchSize) * 0.3
	case e.batchSize > 0:
		e.batchSize = max(e.batchSize, running)
	}
}

// learnRates takes into account what has grown since.
func (e *engine) learnRates(r *EngineSample) {
	took := (r.ScrapedAt - e.ScrapedAt).Seconds()
	if e.ScrapedAt == 0 || took <= 0 || r.ScrapedAt-e.ScrapedAt > maxSampleGap {
		return
	}
	for i := range e.rates {
		if then, now, ok := e.counterPair(r, metrics.Target(i)); ok {
			e.rates[i] = (now - then) / took
			e.ratesKnown |= 1 << i
		}
	}
	tokens, intervals, ok := e.counterPair(r, metrics.Intervals)
	began, ended, ok2 := e.counterPair(r, metrics.IntervalTime)
	if !ok || !ok2 {
		return
	}
	keep := math.Exp(-took / speedWindow.Seconds())
	e.recentTokens = e.recentTokens*keep + intervals - tokens
	e.recentSeconds = e.recentSeconds*keep + ended - began
}

// counterPair returns a counter by the latest reading and by r. It is not ok if one of them lacks it, or if the engine has
// started again.
func (e *engine) counterPair(r *EngineSample, f metrics.Field) (then, now float64, ok bool) {
	then, before := e.Value(f)
	now, told := r.Value(f)
	return then, now, before && told && now >= then
}

// speed returns how many tokens a second the engine generates for each request, 0 while that is not known.
func (e *engine) speed() float64 {
	if e == nil || e.recentTokens < minSpeedTokens || e.recentSeconds*maxTokenRate < e.recentTokens {
		return 0
	}
	return e.recentTokens / e.recentSeconds
}

// relativeSpeed returns the weight of an engine of a speed, beside that of the engine in the middle.
func relativeSpeed(speed, usual float64) float64 {
	if speed == 0 || usual == 0 {
		return 1
	}
	ratio := min(max(speed/usual, minRelativeSpeed), maxRelativeSpeed)
	if ratio < speedNoise && ratio > 1/speedNoise {
		return 1
	}
	return ratio
}

// requestCapacity returns how many requests of ours there may be before some wait: less than none where others fill the engine. It
// is not known before the engine has told of a queue, or of a KV cache in use.
func (e *engine) requestCapacity() (room float64, known bool) {
	running, told := e.Value(metrics.Running)
	if waits := queuedRequests(&e.Snapshot); !told && waits > 0 && e.Counted { // a load report: those that wait are in front of the next
		return float64(e.Inflight.Requests) - waits, true
	}
	room = e.batchSize
	if use := e.value(metrics.KVUse); use >= minKVUse && running >= 2 {
		if fit := running * fullKVUse / use; room == 0 || fit < room {
			room = fit
		}
	}
	return room - e.external, room > 0
}

// tokenCapacity returns how many tokens of ours fit into the engine's KV cache.
func (e *engine) tokenCapacity(size float64) (room float64, known bool) {
	room = fullKVUse * e.value(metrics.KVBlocks) * e.value(metrics.BlockTokens)
	return room - size*e.external, room > 0
}

// maxEngineLists is how many lists are kept, and mostWeighed how many candidates in all of them: each adapter has a list,
// and so has each configuration; and while endpoints fail, nearly every outcome makes another one.
const maxEngineLists, maxEngineCandidates = 256, 1 << 16

// evictLists forgets the lists that were not used for longest if there are too many for another one of n candidates.
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
