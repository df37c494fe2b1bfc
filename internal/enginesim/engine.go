package enginesim

import (
	"cmp"
	"errors"
	"time"
)

// ErrBusy is the error of a full waiting queue.
var ErrBusy = errors.New("enginesim: the queue is full")

// Engine decides what is done in each step. It is not safe for concurrent use.
type Engine struct {
	cfg     Config
	times   Times
	cache   *kvCache
	waiting []*Request // first come, first served; preempted ones at the front
	running []*Request // in order of admission
	// starved is set if the last step left a request waiting for KV blocks.
	starved bool
	// deferred is how many the last step passed over, since the batch had its fill of adapters.
	deferred int
	adapters adapters
	stats    Stats
	shown    Gauges
	step     step       // under way
	served   []*Request // got a token in the last step
}

// New returns an idle engine, whose counts begin at time 0. Zero times are those of DefaultTimes.
func New(cfg Config, times Times) *Engine {
	cfg = cfg.WithDefaults()
	return &Engine{
		cfg: cfg, times: cmp.Or(times, DefaultTimes()), cache: newKVCache(cfg.NumBlocks),
		adapters: adapters{max: cfg.MaxLoras}, stats: newStats(cfg.MaxModelLen, 0),
	}
}

// Config returns the configuration, without gaps.
func (e *Engine) Config() Config { return e.cfg }

// Times returns what work takes.
func (e *Engine) Times() Times { return e.times }

// SetTimes changes what work takes, for the steps that begin after the call.
func (e *Engine) SetTimes(t Times) { e.times = t }

// Reset forgets all counts, cached prefixes and loaded adapters. Requests go on.
func (e *Engine) Reset(now time.Duration) {
	e.stats = newStats(e.cfg.MaxModelLen, now)
	e.cache.forget()
	e.adapters.forget()
}

// Bypass counts a request that was answered without the engine.
func (e *Engine) Bypass(promptTokens, outputTokens int, why Finish) {
	s := &e.stats
	s.Finished[why]++
	s.PromptTokens += int64(promptTokens)
	s.OutputTokens += int64(outputTokens)
	s.PromptLen.Observe(float64(promptTokens))
	s.OutputLen.Observe(float64(outputTokens))
}

// show takes the gauges.
func (e *Engine) show(now time.Duration) {
	e.shown = Gauges{
		Running: len(e.running), Waiting: len(e.waiting), Deferred: min(e.deferred, len(e.waiting)),
		KVUsage: e.cache.usage(),
	}
	e.adapters.update(now)
}

// Add puts a new request at the end of the queue. The error is ErrBusy.
func (e *Engine) Add(r *Request, now time.Duration) error {
	e.account(now)
	if e.cfg.MaxQueued >= 0 && len(e.running)+len(e.waiting)-e.cfg.MaxNumSeqs >= e.cfg.MaxQueued {
		e.stats.Rejected++
		return ErrBusy
	}
	r.Finish = cmp.Or(r.Finish, FinishLength)
	r.data, r.promptTokens = r.Prompt, TokensOf(len(r.Prompt))
	r.state, r.arrived = stateWaiting, now
	e.waiting = append(e.waiting, r)
	e.stats.MaxQueued = max(e.stats.MaxQueued, e.Queued())
	return nil
}

// Abort ends a request whose client has left and frees its blocks. It has no effect on one that is done.
func (e *Engine) Abort(r *Request, now time.Duration) {
	e.account(now)
	switch r.state {
	case stateWaiting:
		e.waiting = remove(e.waiting, r)
	case stateRunning:
		e.running = remove(e.running, r)
		e.release(r)
	default:
		return
	}
	if len(e.waiting) == 0 {
		e.starved = false
	}
	e.end(r, stateAborted)
	e.stats.finish(r, FinishAbort, now)
	if e.Idle() {
		e.show(now) // no step will
	}
}

// Begin begins a step and returns how long it takes: 0 without work, else more. It plans first every running request,
// then as many waiting ones as slots, token budget and free blocks allow.
func (e *Engine) Begin(now time.Duration) time.Duration {
	if e.step = (step{work: e.step.work[:0]}); e.Idle() {
		return 0
	}
	e.account(now)
	e.starved, e.deferred = false, 0
	st, budget := &e.step, e.cfg.MaxBatchedTokens
	preempted := false
	// Preemption shortens the slice from its end, behind i.
	for i := 0; i < len(e.running) && budget > 0; i++ {
		r := e.running[i]
		n := min(r.tokens()-r.computed, budget)
		for !e.grow(r, n) {
			preempted = true
			if e.preemptLast() == r {
				break
			}
		}
		if r.state == stateRunning {
			st.give(r, n)
			budget -= n
		}
	}
	if !preempted {
		e.admit(st, budget, now)
	}
	e.starved = e.starved || preempted
	st.loads = e.adapters.load(e.adapters.batch(e.running))
	e.markQueued()
	e.show(now)
	if len(st.work) == 0 {
		return 0
	}
	return max(e.times.Step(st.started, st.prefill, st.decodes, st.loads), 1)
}

// Finish ends the step that Begin began: what it computed is in the cache now, and each request that has computed all
// it has gets its next token. It returns those that got one; the list is overwritten by the next call.
func (e *Engine) Finish(now time.Duration) []*Request {
	e.account(now)
	e.stats.step(&e.step)
	e.served = e.served[:0]
	for _, w := range e.step.work {
		r := w.req
		if r.state != stateRunning {
			continue // aborted during the step
		}
		r.computed += w.tokens
		e.nameBlocks(r)
		if r.computed < r.tokens() {
			continue
		}
		e.stats.token(r, now)
		r.data = append(r.data, Word(r.Seed, r.generated)...)
		if r.generated++; r.generated == 1 {
			e.adapters.arrive(r.Adapter)
		}
		e.served = append(e.served, r)
		if r.generated < r.Tokens {
			continue
		}
		e.running = remove(e.running, r)
		e.release(r)
		e.end(r, stateFinished)
		e.stats.finish(r, r.Finish, now)
	}
	e.show(now)
	return e.served
}

func (e *Engine) end(r *Request, s state) {
	r.state = s
	if r.generated > 0 {
		e.adapters.depart(r.Adapter)
	}
}

// account adds the time since the last change to the integrals, with the state it had.
func (e *Engine) account(now time.Duration) {
	e.stats.account(now, len(e.waiting), e.Queued(), e.Idle())
}
