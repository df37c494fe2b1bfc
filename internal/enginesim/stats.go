package enginesim

import (
	"time"
)

// Counts are counted since the engine was made or reset.
type Counts struct {
	Rejected    int64 // requests that were refused with ErrBusy
	Preemptions int64
	// QueuedRequests counts the requests that waited because there was no slot, no KV block or no room for their
	// adapter, and MaxQueued is how many did at once at most.
	QueuedRequests int64
	MaxQueued      int
	// AdapterLoads counts the adapters that were not loaded when a batch needed them.
	AdapterLoads int64
	// PromptTokens and CachedTokens are of requests that have had a token, OutputTokens are all tokens of answers.
	PromptTokens int64
	CachedTokens int64
	OutputTokens int64
}

// Stats is what an engine has counted, with the histograms that vLLM keeps.
type Stats struct {
	Counts
	PrefixQueries, PrefixHits int64 // tokens of prompts that were looked up and found in the cache
	Finished                  map[Finish]int64

	// Tokens of requests that ended, of steps, and what requests asked for.
	PromptLen, OutputLen, PrefillKV, MaxOutput, MaxTokens, N, Iteration Histogram
	// Times, in seconds.
	TTFT, InterToken, PerToken, E2E, QueueTime, Inference, PrefillTime, DecodeTime Histogram
	// Preempted is how often a request was preempted.
	Preempted Histogram

	waited, queued, idle, since, accounted time.Duration
}

// Bucket bounds of vLLM's histograms.
var (
	ttftBounds = []float64{
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75,
		1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
	}
	tokenTimeBounds = []float64{
		.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80,
	}
	requestBounds = []float64{
		.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680,
	}
	iterationBounds = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	countBounds     = []float64{1, 2, 5, 10, 20}
	preemptBounds   = []float64{1, 2, 3, 4, 5, 10, 20}
)

// lengthBounds are 1, 2, 5, 10, … up to the longest request.
func lengthBounds(maxModelLen int) []float64 {
	var b []float64
	for decade := 1; ; decade *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*decade > maxModelLen {
				return b
			}
			b = append(b, float64(m*decade))
		}
	}
}

// newStats starts counting at the time given.
func newStats(maxModelLen int, now time.Duration) Stats {
	lengths := Histogram{Bounds: lengthBounds(maxModelLen)}
	tokenTimes, times := Histogram{Bounds: tokenTimeBounds}, Histogram{Bounds: requestBounds}
	return Stats{
		Finished: map[Finish]int64{}, since: now, accounted: now,
		PromptLen: lengths, OutputLen: lengths, PrefillKV: lengths, MaxOutput: lengths, MaxTokens: lengths,
		N: Histogram{Bounds: countBounds}, Iteration: Histogram{Bounds: iterationBounds},
		TTFT: Histogram{Bounds: ttftBounds}, InterToken: tokenTimes, PerToken: tokenTimes,
		E2E: times, QueueTime: times, Inference: times, PrefillTime: times, DecodeTime: times,
		Preempted: Histogram{Bounds: preemptBounds},
	}
}

// account adds the time since the last call, during which so many requests were waiting.
func (s *Stats) account(now time.Duration, waiting, queued int, idle bool) {
	dt := now - s.accounted
	s.accounted = now
	s.waited += dt * time.Duration(waiting)
	s.queued += dt * time.Duration(queued)
	if idle {
		s.idle += dt
	}
}

func (s *Stats) step(st *step) {
	n := 0
	for _, w := range st.work {
		n += w.tokens
	}
	s.Iteration.Observe(float64(n))
	s.AdapterLoads += int64(st.loads)
}

// token counts one more token of a request; it is called before r.generated grows.
func (s *Stats) token(r *Request, now time.Duration) {
	s.OutputTokens++
	if r.generated == 0 {
		r.first = now
		s.PromptTokens += int64(r.promptTokens)
		s.CachedTokens += int64(r.cached)
		s.TTFT.Observe((now - r.arrived).Seconds())
	} else {
		s.InterToken.Observe((now - r.last).Seconds())
	}
	r.last = now
}

// finish counts the end of a request.
func (s *Stats) finish(r *Request, why Finish, now time.Duration) {
	s.Finished[why]++
	s.E2E.Observe((now - r.arrived).Seconds())
	if r.generated == 0 {
		return
	}
	s.PromptLen.Observe(float64(r.promptTokens))
	s.OutputLen.Observe(float64(r.generated))
	s.MaxOutput.Observe(float64(r.generated))
	s.MaxTokens.Observe(float64(r.Tokens))
	s.N.Observe(1)
	s.QueueTime.Observe((r.admitted - r.arrived).Seconds())
	s.Inference.Observe((r.last - r.admitted).Seconds())
	s.PrefillTime.Observe((r.first - r.admitted).Seconds())
	s.DecodeTime.Observe((r.last - r.first).Seconds())
	s.Preempted.Observe(float64(r.preemptions))
	s.PrefillKV.Observe(float64(r.promptTokens - r.cached))
	if r.generated > 1 {
		s.PerToken.Observe((r.last - r.first).Seconds() / float64(r.generated-1))
	}
}
