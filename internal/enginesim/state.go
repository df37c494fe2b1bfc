package enginesim

import (
	"maps"
	"slices"
	"time"
)

// Gauges are what the metrics of an engine show. As in vLLM they are taken when a step is planned and when it ends: a
// request that comes in the middle of a step shows with the next.
type Gauges struct {
	Running, Waiting int     // requests
	Deferred         int     // of those waiting, since the batch has its fill of adapters
	KVUsage          float64 // share of the KV cache that running requests occupy, 0 to 1
}

// State is what an engine knows about itself at one moment.
type State struct {
	Counts
	Running int
	Waiting int
	// Queued is the part of Waiting that no free slot or KV block will take with the next step.
	Queued  int
	KVUsage float64
	// WaitSeconds is the time all requests together spent waiting, QueuedSeconds the part of it spent because there was
	// no slot, KV block or room for an adapter. IdleSeconds is the time without any request, Seconds all time.
	WaitSeconds   float64
	QueuedSeconds float64
	IdleSeconds   float64
	Seconds       float64
}

// Gauges returns what the metrics show.
func (e *Engine) Gauges() Gauges { return e.shown }

// Stats returns a snapshot of what was counted.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.Finished = maps.Clone(s.Finished)
	return s
}

// State returns exact numbers of now.
func (e *Engine) State(now time.Duration) State {
	e.account(now)
	s := &e.stats
	return State{
		Counts: s.Counts, Running: len(e.running), Waiting: len(e.waiting), Queued: e.Queued(),
		KVUsage: e.cache.usage(), Seconds: (now - s.since).Seconds(),
		WaitSeconds: s.waited.Seconds(), QueuedSeconds: s.queued.Seconds(), IdleSeconds: s.idle.Seconds(),
	}
}

// AdapterSets returns the combinations of adapters that had requests at once, since the last reset.
func (e *Engine) AdapterSets() []AdapterSet { return slices.Clone(e.adapters.sets) }

// Requests returns those that are not done: the running ones, then the waiting ones, each in its order.
func (e *Engine) Requests() []*Request { return slices.Concat(e.running, e.waiting) }

// Cached returns how many tokens of a prompt with these blocks are in the cache now, see [Config.Chain].
func (e *Engine) Cached(chain []uint64) int {
	hits, _ := e.cache.lookup(chain)
	return hits * e.cfg.BlockSize
}

// Queued is how many requests wait for a reason: no slot or no KV block is free, or the batch has its fill of adapters.
// One that only waits for the end of the current step is not counted.
func (e *Engine) Queued() int {
	if e.starved {
		return len(e.waiting)
	}
	return max(min(e.deferred, len(e.waiting)), len(e.running)+len(e.waiting)-e.cfg.MaxNumSeqs)
}

// HasRoom reports whether a request that came now would begin to run with the next step.
func (e *Engine) HasRoom() bool {
	return len(e.running)+len(e.waiting) < e.cfg.MaxNumSeqs && !e.starved
}

// Idle reports whether there is no request.
func (e *Engine) Idle() bool { return len(e.running) == 0 && len(e.waiting) == 0 }
