package engines

import (
	"github.com/warmgate/warmgate/metrics"
)

// MinKVUse is the use of the KV cache from which on it shows how many requests fit. fullKVUse is the use above which
// requests are assumed to wait: the ones that run need room to grow.
const MinKVUse, fullKVUse = 0.2, 0.95

// learnExternal learns how many requests no owner counts.
func (e *engine) learnExternal(next *Sample) {
	running, ok := next.Value(metrics.Running)
	// A request reserved just now is not in the engine's numbers yet, and one that just ended may still be. So requests
	// count as external only if two samples in a row contain them. With scrapes, a load report adds nothing: it
	// repeats the number of running requests of the latest scrape.
	if next.ScrapedAt == e.ScrapedAt && next.ScrapedAt > 0 && ok {
		return
	}
	external := 0.0
	if next.Counted {
		external = max(0, running+QueuedRequests(&next.Snapshot)-float64(next.Inflight.Requests))
	}
	e.external, e.lastExternal = min(external, e.lastExternal), external
}

// learnBatchSize learns how many requests run while others wait. If none wait, the size is at least what runs.
func (e *engine) learnBatchSize(next *Sample) {
	const gain = 0.3 // weight of the latest scrape
	running, _ := next.Value(metrics.Running)
	queued := QueuedRequests(&next.Snapshot)
	switch {
	case queued > 0 && e.batchSize == 0 && running > 0:
		e.batchSize = running
	case queued > 0 && running > 0:
		e.batchSize += (running - e.batchSize) * gain
	case e.batchSize > 0:
		e.batchSize = max(e.batchSize, running)
	}
}

// QueuedRequests returns how many requests wait for capacity.
func QueuedRequests(s *metrics.Snapshot) float64 {
	waiting, _ := s.Value(metrics.Waiting)
	deferred, _ := s.Value(metrics.Deferred)
	return max(0, waiting-deferred)
}

// requestCapacity returns how many counted requests the engine serves without queueing; it is negative if external
// requests fill it. It is unknown until the engine has reported a queue or a KV cache in use.
func (e *engine) requestCapacity() (capacity float64, known bool) {
	running, ok := e.Value(metrics.Running)
	if queued := QueuedRequests(&e.Snapshot); !ok && queued > 0 && e.Counted { // load reports only
		return float64(e.Inflight.Requests) - queued, true
	}
	capacity = e.batchSize
	if use := e.orZero(metrics.KVUse); use >= MinKVUse && running >= 2 {
		if fit := running * fullKVUse / use; capacity == 0 || fit < capacity {
			capacity = fit
		}
	}
	return capacity - e.external, capacity > 0
}

// Slots returns how many requests that gateways count an engine runs at once, if that is known.
func (g *Samples) Slots(addr string) (n float64, known bool) {
	if e := g.engines[addr]; e != nil {
		return e.requestCapacity()
	}
	return 0, false
}

// tokenCapacity returns how many counted tokens fit into the engine's KV cache, if external requests have the given
// load each.
func (e *engine) tokenCapacity(requestLoad float64) (capacity float64, known bool) {
	capacity = fullKVUse * e.orZero(metrics.KVBlocks) * e.orZero(metrics.BlockTokens)
	return capacity - requestLoad*e.external, capacity > 0
}
