package push

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/engines"
	"github.com/warmgate/warmgate/metrics"
)

const (
	// lowerGain is how much of the way to what an engine runs the limit is lowered at each sample with a queue.
	lowerGain = 0.5
	// arrivingShare is the share of the batch that may be on its way into it: an engine counts a request as waiting
	// until its next step.
	arrivingShare = 1.0 / 16
	// mostFewer is how many samples in a row may reach the limit while fewer run. One more raises it all the same.
	mostFewer = 3
	// minReportGap is the time between two load reports that are learned from where nothing is scraped.
	minReportGap = time.Second
	// pushKVUse is the use of the KV cache up to which requests are pushed. What runs grows until its answer is
	// complete; what does not fit then is preempted and computed again. And what does not run leaves room for prompts
	// that stay cached. In simulated time 0.85 is best of 0.75 to 0.95.
	pushKVUse = 0.85
)

// seenPage is what limits are learned from of a page, and by what it is told from the next.
type seenPage struct {
	engines.PageMark
	running, queued float64
}

// samplesCame learns from the latest samples.
func (l *Limits) samplesCame(now time.Duration) {
	if l.pending.together {
		l.pending.samples, l.pending.used = true, true
		return
	}
	l.learnSamples(now)
}

func (l *Limits) learnSamples(now time.Duration) {
	l.engines.Each(func(addr string, s *engines.Sample, external float64) { l.learnSample(now, addr, s, external) })
}

// learnSample learns from the latest sample of an engine, given how many requests there no owner counts. A page that is
// the same again teaches nothing: it may stand still, and so does not show what has come of the last step.
func (l *Limits) learnSample(now time.Duration, addr string, s *engines.Sample, external float64) {
	running, queued, ok := batchOf(s)
	if !ok {
		return
	}
	p := l.endpoint(now, addr)
	if p.freshAt = s.FreshAt; s.Frozen || now-p.freshAt > l.staleAfter {
		p.lose(now)
		l.refresh(now, p)
		l.publish(now, p)
		return
	}
	p.sampled = true
	p.search.stop(now)
	at, gap := s.ScrapedAt, time.Duration(1)
	if at == 0 { // load reports only
		at, gap = s.At, minReportGap
	}
	page := seenPage{s.Mark(), running, queued}
	if page == p.page && page.PageMark != (engines.PageMark{}) {
		if s.FreshAt-p.pageAt > l.staleAfter/2 {
			p.doubt(float64(s.Inflight.Requests))
		}
	} else if p.learnedAt == 0 || at-p.learnedAt >= gap {
		p.learnedAt, p.page, p.pageAt = at, page, s.FreshAt
		most := math.Inf(1)
		if use, _ := s.Value(metrics.KVUse); use >= engines.MinKVUse && running >= 2 {
			most = running*pushKVUse/use - external
		}
		p.learnQueue(running-external, queued-l.ahead, float64(s.Inflight.Requests), most)
	}
	l.publish(now, p)
}

// batchOf returns how many requests run and how many wait for capacity, and whether that and what is counted are known.
func batchOf(s *engines.Sample) (running, queued float64, ok bool) {
	if awake, found := s.Value(metrics.Awake); found && awake == 0 {
		return 0, 0, false
	}
	running, hasRunning := s.Value(metrics.Running)
	_, hasWaiting := s.Value(metrics.Waiting)
	queued = engines.QueuedRequests(&s.Snapshot)
	if !hasRunning {
		running = max(0, float64(s.Inflight.Requests)-queued)
	}
	return running, queued, hasWaiting && s.Counted
}

// learnQueue learns from how many counted requests run, how many wait beyond those that may, how many are in flight,
// and how many fit into the KV cache up to pushKVUse.
func (p *endpointLimit) learnQueue(batch, queued, inflight, most float64) {
	before, fewer := p.lastQueued, p.fewer
	p.lastQueued, p.fewer = queued, 0
	reached := inflight >= reachedShare*math.Floor(p.limit)
	switch {
	case queued <= 0 && reached && most < p.limit:
		p.lower(most)
		p.proven = min(p.proven, p.limit)
	case queued <= 0 && reached:
		p.proven = max(p.proven, min(batch, p.limit))
		// If fewer run, some may be on their way, and come to wait. But an engine may count fewer than it has.
		if batch >= reachedShare*math.Floor(p.limit) || fewer == mostFewer {
			p.raise(most)
		} else {
			p.fewer = fewer + 1
		}
	case queued <= 0:
	case queued <= max(1, batch*arrivingShare) && (before <= 0 || !reached):
		// They are likely to be on their way into the batch.
	default:
		limit := p.limit
		p.lower(min(batch, most))
		p.restAfter(limit)
		p.proven = min(max(p.proven, batch, 1), p.limit) // one sample alone may be odd
	}
}

// doubt takes the limit back to what pages have shown to fit, which is reached, since the same page comes for long.
func (p *endpointLimit) doubt(inflight float64) {
	if confirmed := min(p.limit, p.proven); confirmed > 0 && inflight >= reachedShare*math.Floor(confirmed) {
		p.limit = confirmed
	}
}
