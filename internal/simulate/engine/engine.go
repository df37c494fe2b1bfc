package engine

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// Engine decides what is done in each step. The caller says what time it is, and it never goes back.
type Engine struct {
	cfg     enginesim.Config
	times   enginesim.Times
	cache   *kvCache
	waiting []*Request // first come, first served; preempted ones at the front
	running []*Request // in order of admission
	starved bool       // the last step left a request waiting for memory
	apart   bool       // see Apart

	processor *Processor // that it shares with others, nil for none
	ranks     *Ranks     // of whose server it is one, nil for none

	begun   time.Duration // when the steps under way began
	step    time.Duration // how long each of them takes
	steps   int           // how many there are, 0 for none; more than one only decode
	shown   enginesim.Gauges
	evicted int64

	first, done []*Request // see Finish
}

// New returns an idle engine. What is zero is as enginesim.New has it. Adapters are not modelled.
func New(cfg enginesim.Config, times enginesim.Times) *Engine {
	cfg = cfg.WithDefaults()
	return &Engine{
		cfg: cfg, times: cmp.Or(times, enginesim.DefaultTimes()), cache: newKVCache(cfg.BlockSize * cfg.NumBlocks),
	}
}

// Config returns the configuration, without gaps.
func (e *Engine) Config() enginesim.Config { return e.cfg }

// Times returns what work takes.
func (e *Engine) Times() enginesim.Times { return e.times }

// Apart has requests not slow each other down, as in simulators that compute no batches: each step takes as long as one
// that decodes for one request, and computes up to MaxBatchedTokens for each prompt.
func (e *Engine) Apart() { e.apart = true }

// IsApart reports whether it does.
func (e *Engine) IsApart() bool { return e.apart }

// SetSpeed changes the speed, see [enginesim.Times]. A step under way takes as long as it would have.
func (e *Engine) SetSpeed(now time.Duration, speed float64) {
	e.times.Speed = speed
	e.cutSteps(now)
}

// cutSteps has the step under way be the last one, of all ranks of its server.
func (e *Engine) cutSteps(now time.Duration) {
	cut := func(e *Engine) {
		if e.steps > 1 {
			e.steps = max(1, int((now-e.begun+e.step-1)/e.step))
		}
	}
	if e.ranks == nil {
		cut(e)
		return
	}
	for _, o := range e.ranks.list {
		cut(o)
	}
}

// Ends is when the steps under way end, 0 for an idle engine. It changes with [Engine.Add] and [Engine.Begin]. That of
// a rank is that of all ranks of its server.
func (e *Engine) Ends() time.Duration {
	if e.ranks != nil {
		return e.ranks.ends()
	}
	return e.ownEnds()
}

func (e *Engine) ownEnds() time.Duration {
	if e.steps == 0 {
		return 0
	}
	return e.begun + time.Duration(e.steps)*e.step
}

// Preemptions is how often a request has lost its memory to others, to be computed again.
func (e *Engine) Preemptions() int64 { return e.evicted }

// Gauges returns what the metrics show: requests as of the beginning or the end of a step, memory as of now.
func (e *Engine) Gauges(now time.Duration) enginesim.Gauges {
	g, used := e.shown, e.cache.used
	if e.steps > 1 {
		used += len(e.running) * int((now-e.begun)/e.step)
	}
	g.KVUsage = min(1, float64(used)/float64(e.cache.size))
	return g
}

// Load is how many requests the engine has.
func (e *Engine) Load() int { return len(e.running) + len(e.waiting) }

// Cached returns how many tokens of a prompt are in memory now.
func (e *Engine) Cached(prompt []Part) int {
	tokens, _ := e.cache.find(prompt)
	return tokens
}

// Why a request is refused.
var (
	ErrQueueFull = errors.New("engine: the queue is full")
	ErrTooLong   = errors.New("engine: the request would never fit into memory")
)

// Add puts a new request at the end of the queue, or returns why it is refused.
func (e *Engine) Add(r *Request, now time.Duration) error {
	r.prompt = 0
	for i := range r.Prompt {
		r.prompt += r.Prompt[i].Tokens
	}
	r.prompt = max(1, r.prompt)
	if e.inBlocks(r.prompt+r.Answer) > e.cache.size {
		return ErrTooLong
	}
	if e.cfg.MaxQueued >= 0 && e.Load()-e.cfg.MaxNumSeqs >= e.cfg.MaxQueued {
		return ErrQueueFull
	}
	r.arrived = now
	if len(e.waiting) == 0 && len(e.running) < e.cfg.MaxNumSeqs {
		e.cutSteps(now) // the step that is under way is the last one without it
	}
	e.waiting = append(e.waiting, r)
	return nil
}

// Begin begins a step, or several that take equally long and only decode, if there is work: of all ranks of a server.
func (e *Engine) Begin(now time.Duration) {
	if e.ranks != nil {
		e.ranks.begin(now)
		return
	}
	e.beginOwn(now)
}

// beginOwn begins the engine's own steps.
func (e *Engine) beginOwn(now time.Duration) {
	e.begun, e.steps = now, 0
	if e.Load() == 0 {
		return
	}
	e.starved = false
	budget, preempted := e.cfg.MaxBatchedTokens, false
	prompts, prefill, decodes := 0, 0, 0
	count := func(r *Request, n int) {
		r.share = n
		if !e.apart {
			budget -= n
		}
		if n == 1 && r.computed >= r.prompt {
			decodes++
			return
		}
		prefill += n
		if !r.began {
			r.began = true
			prompts++
		}
	}
	for _, r := range e.running {
		r.share = 0
	}
	// Preemption shortens the slice from its end, behind i.
	for i := 0; i < len(e.running) && budget > 0; i++ {
		r := e.running[i]
		n := min(r.tokens()-r.computed, budget)
		grown := e.grow(r, n)
		for !grown {
			preempted = true
			if e.preemptLast() == r {
				break
			}
			grown = e.grow(r, n)
		}
		if grown {
			count(r, n)
		}
	}
	if !preempted {
		e.admit(now, &budget, count)
	}
	e.starved = e.starved || preempted
	e.show()
	if decodes+prefill == 0 {
		return
	}
	e.steps, e.step = 1, e.takes(prompts, prefill, decodes)
	if prefill == 0 && decodes == len(e.running) {
		e.steps = e.alike()
	}
}

// alike returns how many steps there are at least that are like the first one: until an answer ends, or memory may run
// out.
func (e *Engine) alike() int {
	n := e.running[0].Answer
	for _, r := range e.running {
		n = min(n, r.Answer-r.generated)
	}
	if e.processor != nil {
		n = min(n, lookAgain)
	}
	room := e.cache.free() + e.cache.idle - len(e.running)*e.cfg.BlockSize
	return max(1, min(n, room/len(e.running)))
}

// admit moves waiting requests into the batch.
func (e *Engine) admit(now time.Duration, budget *int, count func(*Request, int)) {
	taken := 0
	for *budget > 0 && taken < len(e.waiting) && len(e.running) < e.cfg.MaxNumSeqs {
		r := e.waiting[taken]
		first := !r.ran
		n, ok := e.place(r, *budget)
		if !ok {
			e.starved = true
			break
		}
		if taken++; first {
			r.admitted = now
		}
		e.running = append(e.running, r)
		count(r, n)
	}
	e.waiting = slices.Delete(e.waiting, 0, taken)
}

// place finds what is cached of a waiting request and takes memory for the tokens of its first step, at most budget. It
// takes nothing and reports false if there is not enough.
func (e *Engine) place(r *Request, budget int) (tokens int, ok bool) {
	hits, idle := e.cache.find(r.Prompt)
	// The last token is always computed, since its output is the next token.
	cached := min(hits, r.tokens()-1) / e.cfg.BlockSize * e.cfg.BlockSize
	computed, brought := cached, r.Computed && !r.ran
	if brought {
		computed = r.tokens() - 1
	}
	n := min(r.tokens()-computed, budget)
	if e.inBlocks(computed+n)-hits > e.cache.free()+e.cache.idle-idle {
		return 0, false
	}
	r.entries = e.cache.acquire(r.entries[:0], r.Prompt)
	r.computed, r.named, r.partly, r.found = computed, 0, false, len(r.entries)
	r.began = brought
	if !r.ran {
		r.ran, r.cached = true, cached
	}
	e.grow(r, n)
	return n, true
}

// grow takes memory until n more tokens of the request have room.
func (e *Engine) grow(r *Request, n int) bool {
	missing := e.inBlocks(r.computed+n) - r.held(e.cache)
	if missing <= 0 {
		return true
	}
	if !e.cache.take(missing) {
		return false
	}
	r.own += missing
	return true
}

// inBlocks returns how much memory so many tokens take.
func (e *Engine) inBlocks(tokens int) int {
	return (tokens + e.cfg.BlockSize - 1) / e.cfg.BlockSize * e.cfg.BlockSize
}

// preemptLast sends the youngest running request back to the front of the queue. It will compute its prompt and what it
// has generated again.
func (e *Engine) preemptLast() *Request {
	r := e.running[len(e.running)-1]
	e.running = e.running[:len(e.running)-1]
	e.release(r)
	r.computed, r.began = 0, false
	e.evicted++
	e.waiting = slices.Insert(e.waiting, 0, r)
	return r
}

func (e *Engine) release(r *Request) {
	e.cache.release(r.entries, r.own)
	r.entries, r.own = r.entries[:0], 0
}

// Finish ends the steps under way. It returns the requests that have got their first token and those that have got
// their last, of all ranks of a server; both lists are overwritten by the next call.
func (e *Engine) Finish() (first, done []*Request) {
	if e.ranks != nil {
		return e.ranks.finish()
	}
	return e.endOwn()
}

// endOwn ends the engine's own steps.
func (e *Engine) endOwn() (first, done []*Request) {
	e.first, e.done = e.first[:0], e.done[:0]
	kept := e.running[:0]
	for _, r := range e.running {
		if e.advance(r); r.generated == r.Answer {
			e.done = append(e.done, r)
			continue
		}
		kept = append(kept, r)
	}
	clear(e.running[len(kept):])
	e.running, e.steps = kept, 0
	e.show()
	return e.first, e.done
}

// advance gives a request what the steps under way have computed for it.
func (e *Engine) advance(r *Request) {
	if r.share == 0 {
		return
	}
	if e.steps > 1 {
		e.grow(r, e.steps) // there is room: see alike
	}
	r.computed += r.share + e.steps - 1
	e.nameParts(r)
	if e.steps == 1 && r.computed < r.tokens() {
		return
	}
	if r.generated == 0 {
		e.first = append(e.first, r)
	}
	if r.generated += e.steps; r.generated < r.Answer {
		return
	}
	if r.Name != 0 {
		e.nameAnswer(r)
	}
	e.release(r)
}

// nameParts lets later prompts find the parts of the request that have been computed, and whole blocks of the next one.
func (e *Engine) nameParts(r *Request) {
	if r.named == len(r.Prompt) {
		return
	}
	end := 0
	for i := range r.Prompt {
		begin := end
		end += r.Prompt[i].Tokens
		if i < r.named {
			continue
		}
		if end > r.computed {
			if kept := r.computed/e.cfg.BlockSize*e.cfg.BlockSize - begin; kept > 0 {
				e.namePart(r, i, kept)
			}
			return
		}
		e.namePart(r, i, end-begin)
		r.named, r.partly = i+1, false
	}
}

// namePart lets later prompts find so many tokens of a part, unless they find another request's.
func (e *Engine) namePart(r *Request, i, tokens int) {
	if i < r.found {
		r.own -= e.cache.extend(r.entries[i], tokens)
	} else if r.partly {
		r.own -= e.cache.extend(r.entries[len(r.entries)-1], tokens)
	} else if id, ok := e.cache.name(r.Prompt[i], tokens); ok {
		r.entries = append(r.entries, id)
		r.own -= tokens
		r.partly = true
	}
}

// nameAnswer lets prompts that continue the conversation find the answer, but for its last token, which was not put
// into the model.
func (e *Engine) nameAnswer(r *Request) {
	if id, ok := e.cache.name(Part{Name: r.Name, Tokens: r.generated}, r.generated-1); ok {
		r.entries = append(r.entries, id)
		r.own -= r.generated - 1
	}
}

// show takes the numbers of requests that the metrics show.
func (e *Engine) show() {
	e.shown.Running, e.shown.Waiting = len(e.running), len(e.waiting)
}
