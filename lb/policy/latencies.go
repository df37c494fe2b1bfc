package policy

import (
	"maps"
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
)

// Latencies is how long the clusters of one scope take, and how often they fail, as far as one VM has seen it. Entries
// are as many as there are clusters in configurations.
type Latencies struct {
	by map[string]*latency

	sweptAt    time.Duration
	sinceRetry int // plans since one that asked a neglected cluster
}

// latency is what is known of one cluster.
type latency struct {
	known    means         // of all requests: a failure counts as a slow answer
	served   means         // of those without a failure
	placedAt time.Duration // when the latest of these was placed

	rate       float64 // of failures, as of ratedAt
	outcomes   int     // that it is of
	ratedAt    time.Duration
	streak     int           // failures in a row
	failedAt   time.Duration // the latest of these
	coolsUntil time.Duration
	checks     checks

	room room // of those that were served
}

// means are mean latencies in milliseconds.
type means struct {
	first, whole float64 // until the first part of an answer, and until its end; 0 if unknown
	answers      int     // that these are of
}

const (
	// maxLatency bounds what is learned, in milliseconds: whatever fails, costs stay numbers that can be compared.
	maxLatency = 3600 * 1000.0
	// errorRateHalfLife is how fast a rate of failures decays without outcomes.
	errorRateHalfLife = 10 * time.Second
	// errorRateOutcomes is how many outcomes a rate is of.
	errorRateOutcomes = 16
	// neglectedFor is after which time without a request of this VM what is known of a cluster does not count any more.
	neglectedFor = 5 * time.Second
	// clearFailure is the weight of a failure from which on it is the cluster's: see package health.
	clearFailure = 0.5
)

// NewLatencies returns the latencies of clusters without history.
func NewLatencies() *Latencies { return &Latencies{by: map[string]*latency{}} }

func (ls *Latencies) of(addr string) *latency {
	l := ls.by[addr]
	if l == nil {
		l = &latency{}
		ls.by[addr] = l
	}
	return l
}

// sweep forgets the clusters that are in no configuration any more: those that health does not know.
func (ls *Latencies) sweep(now time.Duration, h *health.Health) {
	if now-ls.sweptAt <= lb.UnusedListTTL/10 {
		return
	}
	ls.sweptAt = now
	maps.DeleteFunc(ls.by, func(addr string, _ *latency) bool { return !h.Knows(addr) })
}

// hasFailed reports whether an outcome is a failure of the cluster. An answer that says that the request is wrong, and
// a client that has left, say nothing of it.
func hasFailed(o *lb.Outcome) bool { return o.Verdict > lb.Success && o.Verdict != lb.Rejected }

// observe learns from an outcome whose failure, if it is one, has the weight. The cluster is compared with those of the
// view.
func (ls *Latencies) observe(now time.Duration, o *lb.Outcome, cfg *ClusterMetricsConfig, weight float64, v *lb.View) {
	l := ls.of(o.Addr)
	if o.Verdict == lb.Neutral || o.Verdict == lb.Rejected {
		return
	}
	failed := hasFailed(o)
	if !failed || weight >= clearFailure {
		l.rateOutcome(now, failed)
	}
	switch {
	case !failed && now-o.Whole > l.failedAt: // one that was placed before says nothing of now
		if cfg.Mode == AdaptiveScore && l.streak > 0 && l.served.answers > 0 {
			l.known = l.served // what failures have taught is over
		}
		l.streak, l.coolsUntil, l.checks = 0, 0, checks{}
	case failed && weight >= clearFailure:
		l.fails(now, cfg)
	}
	if o.Whole <= 0 {
		return
	}
	l.asked(now - o.Whole)
	first, whole := ms(o.FirstPart), ms(o.Whole)
	if first == 0 { // without an answer
		first = whole
	}
	first, whole = min(first, maxLatency), min(whole, maxLatency)
	if !failed {
		l.answered(now, o.Inflight, first, whole, cfg)
		return
	}
	// Else one that fails fast would be the fastest. What failures have taught is left out: it would grow without end.
	slowest := ls.slowest(v)
	l.known.add(min(2*max(first, slowest.first), maxLatency), min(2*max(whole, slowest.whole), maxLatency), weight, cfg)
}

// answered learns from an answer. For AdaptiveScore means are of batches: the latest answer alone says little where
// answers differ.
func (l *latency) answered(now time.Duration, inflight int64, first, whole float64, cfg *ClusterMetricsConfig) {
	l.served.add(first, whole, 1, cfg)
	if cfg.Mode == AdaptiveScore && inflight > 0 {
		done, completed := l.room.add(now, inflight, first, whole)
		switch {
		case completed:
			first, whole = done.first, done.whole
		case l.known.answers > 0:
			return
		}
	}
	l.known.add(first, whole, 1, cfg)
}

// asked notes an outcome of a request that was placed then. What was known before the cluster was neglected does not
// count any more.
func (l *latency) asked(placedAt time.Duration) {
	if placedAt-l.placedAt >= neglectedFor {
		l.known.answers, l.served.answers = 0, 0
		l.room.forgetOpen()
	}
	l.placedAt = max(l.placedAt, placedAt)
}

// add takes over how long an answer took that counts for as much as the weight, from 0 to 1.
func (m *means) add(first, whole, weight float64, cfg *ClusterMetricsConfig) {
	if weight <= 0 {
		return
	}
	m.answers++
	gain := 1 / float64(min(m.answers, cfg.QueueSize))
	if cfg.Mode == AdaptiveScore && m.answers > 1 {
		gain = 1 - cfg.HistoryPart
	}
	if gain *= weight; gain == 1 || m.whole == 0 {
		m.first, m.whole = first, whole
		return
	}
	m.first += gain * (first - m.first)
	m.whole += gain * (whole - m.whole)
}

// rateOutcome adds an outcome to the rate of failures.
func (l *latency) rateOutcome(now time.Duration, failed bool) {
	l.rate = l.failureRate(now)
	l.ratedAt = now
	l.outcomes = min(l.outcomes+1, errorRateOutcomes)
	latest := 0.0
	if failed {
		latest = 1
	}
	l.rate += (latest - l.rate) / float64(l.outcomes)
}

// failureRate returns the rate of failures, decayed until now.
func (l *latency) failureRate(now time.Duration) float64 {
	return l.rate * math.Exp2(-math.Floor(float64(max(0, now-l.ratedAt))/float64(errorRateHalfLife)*8)/8)
}

// withoutCooling returns the candidates that have not failed lately; all if there are none: then requests to them are
// no checks.
func (ls *Latencies) withoutCooling(now time.Duration, cs []lb.Candidate) []lb.Candidate {
	left := make([]lb.Candidate, 0, len(cs))
	for i := range cs {
		if l := ls.of(cs[i].Addr); now >= l.coolsUntil {
			l.checks.from = 0 // what follows is no check, however one ends that is still under way
			left = append(left, cs[i])
		}
	}
	if len(left) > 0 {
		return left
	}
	for i := range cs {
		ls.of(cs[i].Addr).checks.from = 0
	}
	return cs
}

// checks is when a cluster that cools down is tried.
type checks struct {
	next time.Duration // when, 0: at once
	wait time.Duration // behind the latest failure
	from time.Duration // when the first one of the cooldown was placed; 0: none, or others were, too
}

const (
	// A cluster that cools down is tried after firstCheck, and then after twice as long each time, up to lastCheck.
	firstCheck = time.Second
	lastCheck  = 8 * time.Second
)

// failed puts the next check off.
func (t *checks) failed(now time.Duration) {
	if t.wait == 0 {
		t.wait = firstCheck
	}
	t.next = now + t.wait
}

// fails has the cluster cool down.
func (l *latency) fails(now time.Duration, cfg *ClusterMetricsConfig) {
	l.streak++
	l.failedAt, l.coolsUntil = now, now+cfg.cooldown()
	l.checks.failed(now)
}

// startCheck reports whether the cluster cools down and is to be tried now, by one request.
func (l *latency) startCheck(now time.Duration) bool {
	t := &l.checks
	if now >= l.coolsUntil || now < t.next {
		return false
	}
	if t.from == 0 {
		t.from = now
	}
	t.next, t.wait = now+lastCheck, min(max(firstCheck, 2*t.wait), lastCheck)
	return true
}

// include reports whether a request that was placed then was a check.
func (t *checks) include(placedAt time.Duration) bool { return t.from > 0 && placedAt >= t.from }

// coolEjected has the cluster cool down that is ejected, wherever its failures were seen: what comes first when it is
// back is a check.
func (l *latency) coolEjected(now time.Duration, cfg *ClusterMetricsConfig) {
	l.coolsUntil = max(l.coolsUntil, now+cfg.cooldown())
}

// slowest returns the highest means of what was served, over the clusters of the view.
func (ls *Latencies) slowest(v *lb.View) (highest means) {
	for i := range v.Endpoints {
		l := ls.of(v.Endpoints[i].Addr)
		highest.first, highest.whole = max(highest.first, l.served.first), max(highest.whole, l.served.whole)
	}
	return highest
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
