// Package engines turns the metrics of a cluster's engines into what load costs on their endpoints.
package engines

import (
	"time"

	"github.com/warmgate/warmgate/metrics"
)

// maxSampleGap is the time between two scrapes above which no rates are learned from them.
const maxSampleGap = 5 * time.Minute

// engine is the latest sample of one engine and what was learned from all of them.
type engine struct {
	Sample
	seen          seen
	external      float64                     // requests that no owner counts: the lower of the last two samples
	lastExternal  float64                     // the same by the latest sample alone
	batchSize     float64                     // requests that run before others wait, 0 if unknown
	recentTokens  float64                     // generated tokens without the first of each answer, decaying
	recentSeconds float64                     // time between these tokens, summed over all answers, decaying
	rates         [metrics.MaxTargets]float64 // growth of targets that are counters, per second
	ratesKnown    uint32                      // bit i: rates[i] is known
}

// learn updates what follows from the difference between the latest sample and next.
func (e *engine) learn(next *Sample) {
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
func (e *engine) counterPair(next *Sample, f metrics.Field) (then, now float64, ok bool) {
	then, ok1 := e.Value(f)
	now, ok2 := next.Value(f)
	return then, now, ok1 && ok2 && now >= then
}

// asleep reports whether the engine reports that it serves no requests.
func (e *engine) asleep() bool {
	awake, ok := e.Value(metrics.Awake)
	return ok && awake == 0
}

// learnTargetRates learns how much the targets that are counters grew in the given number of seconds since the previous
// scrape.
func (e *engine) learnTargetRates(next *Sample, seconds float64) {
	for i := range e.rates {
		if then, now, ok := e.counterPair(next, metrics.Target(i)); ok {
			e.rates[i] = (now - then) / seconds
			e.ratesKnown |= 1 << i
		}
	}
}

// targetValue returns the value of a target, or its growth per second if it is a counter.
func (e *engine) targetValue(i int) (float64, bool) {
	v, ok := e.Value(metrics.Target(i))
	if ok && e.Grows(metrics.Target(i)) {
		return e.rates[i], e.ratesKnown>>i&1 == 1
	}
	return v, ok
}
