package vllmsim

import (
	"errors"
	"slices"
	"time"
)

// errBusy is the error of a full waiting queue.
var errBusy = errors.New("vllmsim: the engine's queue is full")

// scheduler decides what the engine does in each step. It reads no clock: the same calls with
// the same times give the same schedule. Not safe for concurrent use.
type scheduler struct {
	cfg     Config
	cache   *kvCache
	waiting []*sequence // first come, first served; preempted ones at the front
	running []*sequence // in order of admission
	// starved is set if the last step left a request waiting for KV blocks.
	starved bool
	// deferred is how many the last step passed over, since the batch had its fill of adapters.
	deferred int
	adapters adapters
	stats    *stats
	shown    gauges
}

// gauges are the current values in /metrics. As in vLLM they are taken when a step is planned and when it ends: a
// request that comes in the middle of a step shows with the next.
type gauges struct {
	running, waiting int
	deferred         int // of those waiting
	kvUsage          float64
}

// step is the work of one engine step.
type step struct {
	work    []share
	started int // prompts whose prefill begins
	prefill int // prompt tokens to compute
	decodes int // sequences that decode
	loads   int // adapters that were not loaded
}

// share is the part of a step one sequence gets.
type share struct {
	seq    *sequence
	tokens int
}

func newScheduler(cfg Config, st *stats) *scheduler {
	return &scheduler{cfg: cfg, cache: newKVCache(cfg.NumBlocks), adapters: adapters{max: cfg.MaxLoras}, stats: st}
}

// queued is how many requests wait for a reason: no slot or no KV block is free, or the batch has
// its fill of adapters. One that only waits for the end of the current step is not counted.
func (s *scheduler) queued() int {
	if s.starved {
		return len(s.waiting)
	}
	return max(min(s.deferred, len(s.waiting)), len(s.running)+len(s.waiting)-s.cfg.MaxNumSeqs)
}

// show takes the gauges.
func (s *scheduler) show(now time.Duration) {
	s.shown = gauges{
		running: len(s.running), waiting: len(s.waiting), deferred: min(s.deferred, len(s.waiting)),
		kvUsage: s.cache.usage(),
	}
	s.adapters.update(now)
}

func (s *scheduler) idle() bool { return len(s.running) == 0 && len(s.waiting) == 0 }

// add puts a new sequence at the end of the queue, or returns errBusy.
func (s *scheduler) add(q *sequence, now time.Duration) error {
	s.account(now)
	if s.cfg.MaxQueued >= 0 && len(s.running)+len(s.waiting) >= s.cfg.MaxNumSeqs+s.cfg.MaxQueued {
		s.stats.rejected++
		return errBusy
	}
	q.state, q.arrived = seqWaiting, now
	s.waiting = append(s.waiting, q)
	s.stats.maxWaiting = max(s.stats.maxWaiting, s.queued())
	return nil
}

// abort ends a sequence whose client has left and frees its blocks. It has no effect on one that has ended.
func (s *scheduler) abort(q *sequence, now time.Duration) {
	s.account(now)
	switch q.state {
	case seqWaiting:
		s.waiting = remove(s.waiting, q)
	case seqRunning:
		s.running = remove(s.running, q)
		s.free(q)
	default:
		return
	}
	if len(s.waiting) == 0 {
		s.starved = false
	}
	s.end(q, seqAborted)
	s.stats.finish(q, finishAbort, now)
	if s.idle() {
		s.show(now) // no step will
	}
}

// begin plans the next step: first every running sequence, then as many waiting ones as slots,
// token budget and free blocks allow.
func (s *scheduler) begin(now time.Duration) step {
	s.account(now)
	s.starved, s.deferred = false, 0
	var st step
	budget := s.cfg.MaxBatchedTokens
	preempted := false
	// Preemption shortens the slice from its end, behind i.
	for i := 0; i < len(s.running) && budget > 0; i++ {
		q := s.running[i]
		n := min(q.tokens()-q.computed, budget)
		for !s.grow(q, n) {
			preempted = true
			if s.preemptLast() == q {
				break
			}
		}
		if q.state == seqRunning {
			st.give(q, n)
			budget -= n
		}
	}
	if !preempted {
		s.admit(&st, budget, now)
	}
	s.starved = s.starved || preempted
	st.loads = s.adapters.load(s.adapters.batch(s.running))
	s.markQueued()
	s.show(now)
	return st
}

// admit moves waiting sequences into the batch. Those whose adapter has no room in it are passed over.
func (s *scheduler) admit(st *step, budget int, now time.Duration) {
	batch := s.adapters.batch(s.running)
	for budget > 0 && s.deferred < len(s.waiting) && len(s.running) < s.cfg.MaxNumSeqs {
		q := s.waiting[s.deferred]
		if !s.adapters.fits(batch, q.adapter) {
			s.deferred++
			continue
		}
		n, ok := s.place(q, budget)
		if !ok {
			s.starved = true
			return
		}
		s.waiting = slices.Delete(s.waiting, s.deferred, s.deferred+1)
		s.running = append(s.running, q)
		if q.adapter != "" && !slices.Contains(batch, q.adapter) {
			batch = append(batch, q.adapter)
		}
		q.state = seqRunning
		if q.preemptions == 0 {
			q.admitted, q.cached = now, q.computed
			s.stats.admit(q)
		}
		st.give(q, n)
		budget -= n
	}
}

// markQueued counts the requests that a step has left waiting for a reason, each once.
func (s *scheduler) markQueued() {
	if s.queued() == 0 {
		return
	}
	for _, q := range s.waiting {
		if !q.queued {
			q.queued = true
			s.stats.queuedRequests++
		}
	}
}

// place finds the cached prefix of a waiting sequence and takes blocks for the tokens of its first step, at most
// budget. It takes nothing and reports false if there are not enough.
func (s *scheduler) place(q *sequence, budget int) (tokens int, ok bool) {
	q.chain = extendChain(q.chain, q.salt, q.data, s.cfg.BlockSize*bytesPerToken)
	hits, idle := s.cache.lookup(q.chain[:usable(len(q.chain), q.tokens(), s.cfg.BlockSize)])
	computed := hits * s.cfg.BlockSize
	n := min(q.tokens()-computed, budget)
	if s.blocksFor(computed+n)-hits > s.cache.free-idle {
		return 0, false
	}
	q.blocks = s.cache.acquire(q.blocks[:0], q.chain[:hits])
	q.computed, q.named = computed, hits
	s.grow(q, n)
	return n, true
}

// grow takes blocks until n more tokens of the sequence have room.
func (s *scheduler) grow(q *sequence, n int) bool {
	for len(q.blocks) < s.blocksFor(q.computed+n) {
		id, ok := s.cache.alloc()
		if !ok {
			return false
		}
		q.blocks = append(q.blocks, id)
	}
	return true
}

func (s *scheduler) blocksFor(tokens int) int {
	return (tokens + s.cfg.BlockSize - 1) / s.cfg.BlockSize
}

// preemptLast sends the youngest running sequence back to the front of the queue. It will
// compute its prompt and what it has generated again.
func (s *scheduler) preemptLast() *sequence {
	q := s.running[len(s.running)-1]
	s.running = s.running[:len(s.running)-1]
	s.free(q)
	q.state, q.computed, q.started = seqWaiting, 0, false
	q.preemptions++
	s.stats.preemptions++
	s.waiting = slices.Insert(s.waiting, 0, q)
	return q
}

// finish carries out what begin planned: the tokens are in the cache now, and each sequence
// that has computed all it has gets its next token.
func (s *scheduler) finish(st step, now time.Duration) {
	s.account(now)
	s.stats.step(st)
	s.stats.adapterLoads += int64(st.loads)
	for _, w := range st.work {
		q := w.seq
		if q.state != seqRunning {
			continue // aborted during the step
		}
		q.computed += w.tokens
		s.nameBlocks(q)
		if q.computed < q.tokens() {
			continue
		}
		s.stats.token(q, now)
		q.data = append(q.data, q.word(q.generated)...)
		if q.generated++; q.generated == 1 {
			s.adapters.arrive(q.adapter)
		}
		q.produced.Store(int64(q.generated))
		if q.generated < q.maxTokens {
			q.ring()
			continue
		}
		s.running = remove(s.running, q)
		s.free(q)
		s.end(q, seqFinished)
		s.stats.finish(q, q.reason, now)
	}
	s.show(now)
}

// nameBlocks lets later prompts find the blocks of the sequence that have become full.
func (s *scheduler) nameBlocks(q *sequence) {
	full := q.computed / s.cfg.BlockSize
	if full <= q.named {
		return
	}
	q.chain = extendChain(q.chain, q.salt, q.data, s.cfg.BlockSize*bytesPerToken)
	for ; q.named < min(full, len(q.chain)); q.named++ {
		s.cache.name(q.blocks[q.named], q.chain[q.named])
	}
}

func (s *scheduler) free(q *sequence) {
	s.cache.release(q.blocks)
	q.blocks = q.blocks[:0]
}

func (s *scheduler) end(q *sequence, state seqState) {
	q.state = state
	if q.generated > 0 {
		s.adapters.depart(q.adapter)
	}
	q.ended.Store(true)
	q.ring()
}

// account adds the time since the last change to the integrals, with the state it had.
func (s *scheduler) account(now time.Duration) {
	s.stats.account(now, len(s.waiting), s.queued(), s.idle())
}

// give adds a sequence's share to the step.
func (st *step) give(q *sequence, tokens int) {
	st.work = append(st.work, share{q, tokens})
	if tokens == 1 && q.computed >= q.promptTokens {
		st.decodes++
		return
	}
	st.prefill += tokens
	if !q.started {
		q.started = true
		st.started++
	}
}

// remove deletes one sequence from a list, keeping the order.
func remove(list []*sequence, q *sequence) []*sequence {
	if i := slices.Index(list, q); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
