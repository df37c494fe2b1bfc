package vllmsim

import "time"

// Virtual is the engine of a server in simulated time: the caller has the clock and decides when steps begin and end.
// Queue, batch and cache are those of a [Server]. Not safe for concurrent use.
type Virtual struct {
	sched  *scheduler
	tuning Tuning
	step   step
	jobs   map[*sequence]*Job
}

// Job is a request to a [Virtual] engine.
type Job struct {
	Prompt []byte // as the engine sees it, see [PromptOf]
	Tokens int    // of the answer
	Seed   uint64 // of the answer's text, see [AnswerOf]
	Cached int    // tokens of the prompt that were cached, known from the first token on
}

// NewVirtual returns an idle engine.
func NewVirtual(cfg Config) *Virtual {
	cfg = cfg.withDefaults()
	sched := newScheduler(cfg, newStats(cfg.MaxModelLen, 0))
	return &Virtual{sched: sched, tuning: cfg.Tuning, jobs: map[*sequence]*Job{}}
}

// PromptOf returns the prompt of a chat completion request.
func PromptOf(body []byte) ([]byte, error) {
	r, err := parseRequest(string(body), true, true)
	return r.prompt, err
}

// AnswerOf returns the text of an answer of n tokens.
func AnswerOf(seed uint64, n int) string {
	b := make([]byte, 0, n*bytesPerToken)
	for i := range n {
		b = append(b, wordOf(seed, i)...)
	}
	return string(b)
}

// Add queues a job, however many there are.
func (v *Virtual) Add(j *Job, now time.Duration) {
	n := len(j.Prompt)
	q := newSequence(j.Prompt[:n:n], 0, j.Seed, j.Tokens, finishLength)
	v.jobs[q] = j
	_ = v.sched.add(q, now) // the queue has no limit
}

// Begin begins a step and returns how long it takes, 0 without work.
func (v *Virtual) Begin(now time.Duration) time.Duration {
	if v.sched.idle() {
		return 0
	}
	if v.step = v.sched.begin(now); len(v.step.work) == 0 {
		return 0
	}
	return max(v.tuning.stepTime(v.step), 1)
}

// Finish ends the step and passes on the jobs that have their first token, and those that have all.
func (v *Virtual) Finish(now time.Duration, first, last func(*Job)) {
	fresh := map[*sequence]bool{}
	for _, w := range v.step.work {
		fresh[w.seq] = w.seq.generated == 0
	}
	v.sched.finish(v.step, now)
	for _, w := range v.step.work {
		q := w.seq
		j := v.jobs[q]
		if q.generated > 0 && fresh[q] {
			j.Cached = q.cached
			first(j)
		}
		if q.state == seqFinished {
			delete(v.jobs, q)
			last(j)
		}
	}
}

// Each passes on the jobs that are not done, in no order, and how many tokens of their answers are there.
func (v *Virtual) Each(do func(j *Job, generated int)) {
	for q, j := range v.jobs {
		do(j, q.generated)
	}
}

// Config returns the configuration, without gaps.
func (v *Virtual) Config() Config { return v.sched.cfg }

// Gauges are what the metrics of an engine show.
type Gauges struct {
	Running, Waiting int     // requests
	KVUse            float64 // share of the KV cache that running requests occupy, 0 to 1
	Preemptions      int     // since the beginning
}

// Gauges returns what the metrics show: as in vLLM the gauges are those of the latest step.
func (v *Virtual) Gauges() Gauges {
	g := v.sched.shown
	return Gauges{g.running, g.waiting, g.kvUsage, int(v.sched.stats.preemptions)}
}

// Cached returns how many tokens of a prompt with these blocks are in the cache now.
func (v *Virtual) Cached(chain []uint64) int {
	hits, _ := v.sched.cache.lookup(chain)
	return hits * v.sched.cfg.BlockSize
}

// ChainOf names the full blocks of the prompt, for [Virtual.Cached].
func (v *Virtual) ChainOf(prompt []byte) []uint64 {
	return extendChain(nil, 0, prompt, v.sched.cfg.BlockSize*bytesPerToken)
}
