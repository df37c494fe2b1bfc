package vllmsim

import "time"

// stats is what the engine counts: the source of /metrics and /sim/state. Guarded by the
// engine's mutex.
type stats struct {
	rejected, preemptions          int64
	promptTokens, cachedTokens     int64
	prefixQueries, prefixHits      int64
	outputTokens                   int64
	queuedRequests, adapterLoads   int64
	finished                       map[finish]int64
	maxWaiting                     int
	waited, queued, idleFor, since time.Duration
	accounted                      time.Duration

	promptLen, outputLen, iteration      histogram
	maxOutput, paramN, paramMaxTokens    histogram
	ttft, interToken, perToken           histogram
	e2e, queueTime, inference            histogram
	prefillTime, decodeTime, preemptHist histogram
	prefillKV                            histogram
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

// lengthBounds are 1, 2, 5, 10, … up to the longest sequence.
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

// newStats starts counting at the engine time given.
func newStats(maxModelLen int, now time.Duration) *stats {
	lengths := lengthBounds(maxModelLen)
	return &stats{
		finished:       make(map[finish]int64),
		since:          now,
		accounted:      now,
		promptLen:      newHistogram(lengths),
		outputLen:      newHistogram(lengths),
		maxOutput:      newHistogram(lengths),
		paramMaxTokens: newHistogram(lengths),
		prefillKV:      newHistogram(lengths),
		iteration:      newHistogram(iterationBounds),
		paramN:         newHistogram(countBounds),
		preemptHist:    newHistogram(preemptBounds),
		ttft:           newHistogram(ttftBounds),
		interToken:     newHistogram(tokenTimeBounds),
		perToken:       newHistogram(tokenTimeBounds),
		e2e:            newHistogram(requestBounds),
		queueTime:      newHistogram(requestBounds),
		inference:      newHistogram(requestBounds),
		prefillTime:    newHistogram(requestBounds),
		decodeTime:     newHistogram(requestBounds),
	}
}

// account adds the time since the last call, during which so many requests were waiting.
func (s *stats) account(now time.Duration, waiting, queued int, idle bool) {
	dt := now - s.accounted
	s.accounted = now
	s.waited += dt * time.Duration(waiting)
	s.queued += dt * time.Duration(queued)
	if idle {
		s.idleFor += dt
	}
}

// admit counts a sequence's look-up in the prefix cache.
func (s *stats) admit(q *sequence) {
	s.prefixQueries += int64(q.promptTokens)
	s.prefixHits += int64(q.cached)
}

func (s *stats) step(st step) {
	n := 0
	for _, w := range st.work {
		n += w.tokens
	}
	s.iteration.observe(float64(n))
}

// token counts one more token of a sequence; it is called before q.generated grows.
func (s *stats) token(q *sequence, now time.Duration) {
	s.outputTokens++
	if q.generated == 0 {
		q.first = now
		s.promptTokens += int64(q.promptTokens)
		s.cachedTokens += int64(q.cached)
		s.ttft.observe((now - q.arrived).Seconds())
	} else {
		s.interToken.observe((now - q.last).Seconds())
	}
	q.last = now
}

// finish counts the end of a sequence.
func (s *stats) finish(q *sequence, why finish, now time.Duration) {
	s.finished[why]++
	s.e2e.observe((now - q.arrived).Seconds())
	if q.generated == 0 {
		return
	}
	s.promptLen.observe(float64(q.promptTokens))
	s.outputLen.observe(float64(q.generated))
	s.maxOutput.observe(float64(q.generated))
	s.paramMaxTokens.observe(float64(q.maxTokens))
	s.paramN.observe(1)
	s.queueTime.observe((q.admitted - q.arrived).Seconds())
	s.inference.observe((q.last - q.admitted).Seconds())
	s.prefillTime.observe((q.first - q.admitted).Seconds())
	s.decodeTime.observe((q.last - q.first).Seconds())
	s.preemptHist.observe(float64(q.preemptions))
	s.prefillKV.observe(float64(q.promptTokens - q.cached))
	if q.generated > 1 {
		s.perToken.observe((q.last - q.first).Seconds() / float64(q.generated-1))
	}
}

// instant counts a request answered without the engine.
func (s *stats) instant(promptTokens, outputTokens int, why finish) {
	s.finished[why]++
	s.promptTokens += int64(promptTokens)
	s.outputTokens += int64(outputTokens)
	s.promptLen.observe(float64(promptTokens))
	s.outputLen.observe(float64(outputTokens))
}

// histogram is a Prometheus histogram: counts[i] observations were at most bounds[i] and more
// than the bound before; the last count is of those above all bounds.
type histogram struct {
	bounds []float64
	counts []int64
	sum    float64
}

func newHistogram(bounds []float64) histogram {
	return histogram{bounds: bounds, counts: make([]int64, len(bounds)+1)}
}

func (h *histogram) observe(v float64) {
	i := 0
	for i < len(h.bounds) && v > h.bounds[i] {
		i++
	}
	h.counts[i]++
	h.sum += v
}
