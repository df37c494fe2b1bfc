package lb

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/metrics"
)

const (
	// speedWindow is the time constant with which samples of an engine's speed decay.
	speedWindow = time.Minute
	// maxSampleGap is the time between two scrapes above which no rates are learned from them.
	maxSampleGap = 5 * time.Minute
	// minSpeedTokens is the number of tokens from which on the speed of an engine is known.
	minSpeedTokens = 200
	// speedNoise is the ratio up to which speeds count as equal: alike engines differ in their batches.
	speedNoise = 1.25
	// maxTokenRate bounds the speed of an engine, in tokens per second and request. A higher one is an error.
	maxTokenRate = 1e6
	// minRelativeSpeed and maxRelativeSpeed bound the learned capacity, relative to the median engine.
	minRelativeSpeed, maxRelativeSpeed = 1.0 / 8, 8
	// minKVUse is the use of the KV cache from which on it shows how many requests fit. fullKVUse is the use above
	// which requests are assumed to wait: the ones that run need room to grow.
	minKVUse, fullKVUse = 0.2, 0.95
)

// engine is the latest sample of one engine and what was learned from all of them.
type engine struct {
	EngineSample
	external      float64                     // requests that no owner counts: the lower of the last two samples
	lastExternal  float64                     // the same by the latest sample alone
	batchSize     float64                     // requests that run before others wait, 0 if unknown
	recentTokens  float64                     // generated tokens without the first of each answer, decaying
	recentSeconds float64                     // time between these tokens, summed over all answers, decaying
	rates         [metrics.MaxTargets]float64 // growth of targets that are counters, per second
	ratesKnown    uint32                      // bit i: rates[i] is known
}

// fresh reports whether there is a sample that is not older than the given age.
func (e *engine) fresh(now, age time.Duration) bool { return e != nil && now-e.FreshAt <= age }

// value returns a field of the latest sample, 0 if it is missing.
func (e *engine) value(f metrics.Field) float64 {
	v, _ := e.Value(f)
	return v
}

// queuedRequests returns how many requests wait for capacity.
func queuedRequests(s *metrics.Snapshot) float64 {
	waiting, _ := s.Value(metrics.Waiting)
	deferred, _ := s.Value(metrics.Deferred)
	return max(0, waiting-deferred)
}

// asleep reports whether the engine reports that it serves no requests.
func (e *engine) asleep() bool {
	awake, ok := e.Value(metrics.Awake)
	return ok && awake == 0
}

// learn updates what follows from the difference between the latest sample and next.
func (e *engine) learn(next *EngineSample) {
	running, ok := next.Value(metrics.Running)
	// A request reserved just now is not in the engine's numbers yet, and one that just ended may still be. So requests
	// count as external only if two samples in a row contain them. With scrapes, a load report adds nothing: it
	// repeats the number of running requests of the latest scrape.
	if next.ScrapedAt != e.ScrapedAt || next.ScrapedAt == 0 || !ok {
		external := 0.0
		if next.Counted {
			external = max(0, running+queuedRequests(&next.Snapshot)-float64(next.Inflight.Requests))
		}
		e.external, e.lastExternal = min(external, e.lastExternal), external
	}
	if next.ScrapedAt != e.ScrapedAt {
		e.learnBatchSize(running, queuedRequests(&next.Snapshot))
		e.learnRates(next)
	}
}

// learnBatchSize learns how many requests run while others wait. If none wait, the size is at least what runs.
func (e *engine) learnBatchSize(running, queued float64) {
	const gain = 0.3 // weight of the latest scrape
	switch {
	case queued > 0 && e.batchSize == 0 && running > 0:
		e.batchSize = running
	case queued > 0 && running > 0:
		e.batchSize += (running - e.batchSize) * gain
	case e.batchSize > 0:
		e.batchSize = max(e.batchSize, running)
	}
}

// learnRates learns from the growth of counters since the previous scrape.
func (e *engine) learnRates(next *EngineSample) {
	seconds := (next.ScrapedAt - e.ScrapedAt).Seconds()
	if e.ScrapedAt == 0 || seconds <= 0 || next.ScrapedAt-e.ScrapedAt > maxSampleGap {
		return
	}
	for i := range e.rates {
		if then, now, ok := e.counterPair(next, metrics.Target(i)); ok {
			e.rates[i] = (now - then) / seconds
			e.ratesKnown |= 1 << i
		}
	}
	tokensThen, tokensNow, ok := e.counterPair(next, metrics.Intervals)
	timeThen, timeNow, ok2 := e.counterPair(next, metrics.IntervalTime)
	if !ok || !ok2 {
		return
	}
	decay := math.Exp(-seconds / speedWindow.Seconds())
	e.recentTokens = e.recentTokens*decay + tokensNow - tokensThen
	e.recentSeconds = e.recentSeconds*decay + timeNow - timeThen
}

// counterPair returns a counter in the latest sample and in next. It is not ok if one of them lacks it, or if it has
// been reset by a restart of the engine.
func (e *engine) counterPair(next *EngineSample, f metrics.Field) (then, now float64, ok bool) {
	then, ok1 := e.Value(f)
	now, ok2 := next.Value(f)
	return then, now, ok1 && ok2 && now >= then
}

// speed returns how many tokens per second the engine generates for each request, 0 if unknown.
func (e *engine) speed() float64 {
	if e == nil || e.recentTokens < minSpeedTokens || e.recentSeconds*maxTokenRate < e.recentTokens {
		return 0
	}
	return e.recentTokens / e.recentSeconds
}

// relativeSpeed returns the learned weight of an engine, given its speed and the median speed; 1 if one is unknown.
func relativeSpeed(speed, median float64) float64 {
	if speed == 0 || median == 0 {
		return 1
	}
	ratio := min(max(speed/median, minRelativeSpeed), maxRelativeSpeed)
	if ratio < speedNoise && ratio > 1/speedNoise {
		return 1
	}
	return ratio
}

// requestCapacity returns how many counted requests the engine serves without queueing; it is negative if external
// requests fill it. It is unknown until the engine has reported a queue or a KV cache in use.
func (e *engine) requestCapacity() (capacity float64, known bool) {
	running, ok := e.Value(metrics.Running)
	if queued := queuedRequests(&e.Snapshot); !ok && queued > 0 && e.Counted { // load reports only
		return float64(e.Inflight.Requests) - queued, true
	}
	capacity = e.batchSize
	if use := e.value(metrics.KVUse); use >= minKVUse && running >= 2 {
		if fit := running * fullKVUse / use; capacity == 0 || fit < capacity {
			capacity = fit
		}
	}
	return capacity - e.external, capacity > 0
}

// tokenCapacity returns how many counted tokens fit into the engine's KV cache, if external requests have the given
// load each.
func (e *engine) tokenCapacity(requestLoad float64) (capacity float64, known bool) {
	capacity = fullKVUse * e.value(metrics.KVBlocks) * e.value(metrics.BlockTokens)
	return capacity - requestLoad*e.external, capacity > 0
}

// targetValue returns the value of a target, or its growth per second if it is a counter.
func (e *engine) targetValue(i int) (float64, bool) {
	v, ok := e.Value(metrics.Target(i))
	if ok && e.Grows(metrics.Target(i)) {
		return e.rates[i], e.ratesKnown>>i&1 == 1
	}
	return v, ok
}
