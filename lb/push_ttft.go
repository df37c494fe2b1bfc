package lb

import (
	"math"
	"time"
)

const (
	// shortAnswers is how many answers the mean is over by which a limit changes. longAnswers is how many the mean is
	// over that is a base: the lowest of many short means would be far below what is typical. In probes, which are
	// rare, and at first a short one will do.
	shortAnswers, longAnswers = 32, 128
	// baseAge is how long a base counts at most, in two halves.
	baseAge = 10 * time.Minute
	// A mean above slowFactor times the base lowers the limit, one below fastFactor times the base raises it if the
	// limit was reached. ttftSlack is added to the former, in seconds, and half of it to the latter: times of ticks
	// have an error.
	slowFactor, fastFactor, ttftSlack = 2, 1.3, 0.02
	// slowLowering is what a limit is multiplied by when it is too high.
	slowLowering = 0.9
	// The base of an endpoint that is never idle is measured under a part of its limit: firstProbeShare until such a
	// probe is not much faster, then laterProbeShare.
	firstProbeShare, firstProbeFactor = 0.5, 1.5
	laterProbeShare                   = 0.75
	// maxUnmeasured is how many answers in a row that are not streamed show that nothing can be learned.
	maxUnmeasured = 64
)

// FirstPart is the first part of an answer: when it came shows how long the request has waited in the engine.
type FirstPart struct {
	Addr     string
	PlacedAt time.Duration // when the request was placed there, after it has waited elsewhere
	Inflight int64         // requests in flight there at that time, over all owners, this one included
	Whole    bool          // the answer is not streamed: its time is that of computing all of it
}

// ttftMeans is the mean times to first token of one endpoint, in seconds.
type ttftMeans struct {
	short, long  mean
	lastLong     float64       // latest mean that is a base and was not measured in a probe, 0 for none
	best         [2]float64    // lowest base in this and in the previous half of baseAge, 0 for none
	half         int64         // number of this half
	mostInflight float64       // requests in flight when one of those in short was placed
	changedAt    time.Duration // when the limit has changed: what was placed before does not count
	unmeasured   int           // answers that were not streamed, since the last one that was
	probing      bool          // a part of the limit holds
	probed       bool          // a probe has begun
	settled      bool          // a probe has shown that the limit is not far too high
}

// mean is a mean over a number of answers.
type mean struct {
	sum float64
	n   int
}

// add adds a value. When there are as many as given it returns their mean and begins again.
func (m *mean) add(v float64, answers int) (result float64, complete bool) {
	m.sum, m.n = m.sum+v, m.n+1
	if m.n < answers {
		return 0, false
	}
	result = m.sum / float64(m.n)
	*m = mean{}
	return result, true
}

// Observe learns from the first part of a good answer. Times may be those of ticks: only their means count.
func (l *PushLimits) Observe(now time.Duration, f FirstPart) {
	p := l.endpoint(now, f.Addr)
	if f.Whole {
		p.ttft.unmeasured = min(p.ttft.unmeasured+1, maxUnmeasured)
	} else {
		p.ttft.unmeasured = 0
		p.learnTTFT(now, &f, l.fresh(now, p))
	}
	l.publish(now, p)
}

// learnTTFT learns from an answer. While there is a fresh sample, which says more, the limit does not change.
func (p *pushLimit) learnTTFT(now time.Duration, f *FirstPart, sampled bool) {
	t, ttft := &p.ttft, (now - f.PlacedAt).Seconds()
	if f.PlacedAt < t.changedAt {
		return
	}
	t.mostInflight = max(t.mostInflight, float64(f.Inflight))
	reached := t.mostInflight >= reachedShare*math.Floor(p.limit) && !sampled
	if t.turn(now) && reached {
		t.startProbe(now)
	}
	p.learnBase(now, ttft, reached)
	m, complete := t.short.add(ttft, shortAnswers)
	if !complete || t.probing {
		return
	}
	used := t.mostInflight >= p.limit/2 && !sampled // else it is not the limit that is wrong
	t.mostInflight = 0
	base := t.base()
	switch {
	case base == 0:
	case m > slowFactor*base+ttftSlack && used:
		p.step, p.limit = 1, max(1, p.limit*slowLowering)
		t.changedAt = now
	case m < fastFactor*base+ttftSlack/2 && reached:
		p.raise(math.Inf(1))
		t.changedAt = now
	default:
		p.step = min(p.step, 1)
	}
}

// learnBase learns the base, and ends a probe. If answers came much faster under a part of the limit, that is the limit
// from then on, and a part of it is probed next.
func (p *pushLimit) learnBase(now time.Duration, ttft float64, reached bool) {
	t, n := &p.ttft, longAnswers
	if t.probing || !t.probed {
		n = shortAnswers
	}
	m, complete := t.long.add(ttft, n)
	if !complete {
		return
	}
	if t.best[0] == 0 || m < t.best[0] {
		t.best[0] = m
	}
	if !t.probing {
		t.lastLong = m
		if reached && !t.probed { // what was measured first may have been under load
			t.startProbe(now)
		}
		return
	}
	part, factor := t.probeShare()
	far := t.lastLong > factor*m+ttftSlack
	if far {
		p.limit, p.step, t.lastLong = max(1, p.limit*part), 1, m
	}
	t.stopProbe(now)
	if far && p.limit > 1 {
		t.startProbe(now)
	}
	t.settled = t.settled || !far
}

// turn begins another half of baseAge when this one is over, and reports whether it does. Halves begin at the same time
// in all VMs: a probe of one shows nothing while the others do not hold back.
func (t *ttftMeans) turn(now time.Duration) bool {
	half := int64(now / (baseAge / 2))
	before := t.half
	t.half = half
	if before == 0 || before == half {
		return false
	}
	t.best = [2]float64{0, t.best[0]}
	if half > before+1 {
		t.best[1] = 0
	}
	return true
}

// base returns the lowest mean over longAnswers that still counts, 0 for none.
func (t *ttftMeans) base() float64 {
	if t.best[0] == 0 || t.best[1] == 0 {
		return t.best[0] + t.best[1]
	}
	return min(t.best[0], t.best[1])
}

// startProbe begins a probe.
func (t *ttftMeans) startProbe(now time.Duration) {
	t.probing, t.probed = true, true
	t.restart(now)
}

// stopProbe ends a probe, if there is one.
func (t *ttftMeans) stopProbe(now time.Duration) {
	if t.probing {
		t.probing = false
		t.restart(now)
	}
}

// restart has answers to what was placed before count no more.
func (t *ttftMeans) restart(now time.Duration) {
	t.changedAt, t.mostInflight, t.short, t.long = now, 0, mean{}, mean{}
}

// probeShare returns which part of the limit holds during a probe, and how many times as fast answers must be then for
// that part to be the limit.
func (t *ttftMeans) probeShare() (part, factor float64) {
	if t.settled {
		return laterProbeShare, slowFactor
	}
	return firstProbeShare, firstProbeFactor
}
