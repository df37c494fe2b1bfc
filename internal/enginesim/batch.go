package enginesim

import (
	"slices"
	"time"
)

// admit moves waiting requests into the batch. Those whose adapter has no room in it are passed over.
func (e *Engine) admit(st *step, budget int, now time.Duration) {
	batch := e.adapters.batch(e.running)
	for budget > 0 && e.deferred < len(e.waiting) && len(e.running) < e.cfg.MaxNumSeqs {
		r := e.waiting[e.deferred]
		if !e.adapters.fits(batch, r.Adapter) {
			e.deferred++
			continue
		}
		n, ok := e.place(r, budget)
		if !ok {
			e.starved = true
			return
		}
		e.waiting = slices.Delete(e.waiting, e.deferred, e.deferred+1)
		e.running = append(e.running, r)
		if r.Adapter != "" && !slices.Contains(batch, r.Adapter) {
			batch = append(batch, r.Adapter)
		}
		r.state = stateRunning
		if r.preemptions == 0 {
			r.admitted, r.cached = now, r.computed
			e.stats.PrefixQueries += int64(r.promptTokens)
			e.stats.PrefixHits += int64(r.cached)
		}
		st.give(r, n)
		budget -= n
	}
}

// markQueued counts the requests that a step has left waiting for a reason, each once.
func (e *Engine) markQueued() {
	if e.Queued() == 0 {
		return
	}
	for _, r := range e.waiting {
		if !r.queued {
			r.queued = true
			e.stats.QueuedRequests++
		}
	}
}

// place finds the cached prefix of a waiting request and takes blocks for the tokens of its first step, at most
// budget. It takes nothing and reports false if there are not enough.
func (e *Engine) place(r *Request, budget int) (tokens int, ok bool) {
	r.chain = extendChain(r.chain, r.Salt, r.data, e.cfg.BlockSize*BytesPerToken)
	hits, idle := e.cache.lookup(e.cfg.Usable(r.chain, r.tokens()))
	computed := hits * e.cfg.BlockSize
	n := min(r.tokens()-computed, budget)
	if e.blocksFor(computed+n)-hits > e.cache.free-idle {
		return 0, false
	}
	r.blocks = e.cache.acquire(r.blocks[:0], r.chain[:hits])
	r.computed, r.named = computed, hits
	e.grow(r, n)
	return n, true
}

// grow takes blocks until n more tokens of the request have room.
func (e *Engine) grow(r *Request, n int) bool {
	for len(r.blocks) < e.blocksFor(r.computed+n) {
		id, ok := e.cache.alloc()
		if !ok {
			return false
		}
		r.blocks = append(r.blocks, id)
	}
	return true
}

func (e *Engine) blocksFor(tokens int) int {
	return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize
}

// preemptLast sends the youngest running request back to the front of the queue. It will compute its prompt and what it
// has generated again.
func (e *Engine) preemptLast() *Request {
	r := e.running[len(e.running)-1]
	e.running = e.running[:len(e.running)-1]
	e.release(r)
	r.state, r.computed, r.started = stateWaiting, 0, false
	r.preemptions++
	e.stats.Preemptions++
	e.waiting = slices.Insert(e.waiting, 0, r)
	return r
}

// nameBlocks lets later prompts find the blocks of the request that have become full.
func (e *Engine) nameBlocks(r *Request) {
	full := r.computed / e.cfg.BlockSize
	if full <= r.named {
		return
	}
	r.chain = extendChain(r.chain, r.Salt, r.data, e.cfg.BlockSize*BytesPerToken)
	for ; r.named < min(full, len(r.chain)); r.named++ {
		e.cache.name(r.blocks[r.named], r.chain[r.named])
	}
}

// release gives up the blocks of a request.
func (e *Engine) release(r *Request) {
	e.cache.release(r.blocks)
	r.blocks = r.blocks[:0]
}

// remove deletes one request from a list, keeping the order.
func remove(list []*Request, r *Request) []*Request {
	if i := slices.Index(list, r); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
