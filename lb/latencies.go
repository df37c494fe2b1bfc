package lb

import (
	"math"
	"slices"
	"time"
)

// Latencies is how long the clusters of one scope take, and how often they fail, as far as one VM has seen it. Entries
// are as many as there are clusters in configurations.
type Latencies struct {
	by   map[string]*latency
	pool listPool // of lists of candidates with costs

	sweptAt time.Duration
}

// latency is what is known of one cluster. Times are in milliseconds.
type latency struct {
	first, whole float64 // until the first part of an answer, and until its end; 0 if unknown
	answers      int     // that these are of
	placedAt     time.Duration

	rate       float64 // of failures, as of ratedAt
	outcomes   int     // that it is of
	ratedAt    time.Duration
	streak     int // failures in a row
	coolsUntil time.Duration
}

const (
	// errorRateHalfLife is how fast a rate of failures decays without outcomes.
	errorRateHalfLife = 10 * time.Second
	// errorRateOutcomes is how many outcomes a rate is of.
	errorRateOutcomes = 16
	// clearFailure is the weight of a failure from which on it is the cluster's: see failure_weight.go.
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

// intern returns the list that equals cs, if there is one: stores recognize lists by their address.
func (ls *Latencies) intern(now time.Duration, cs []Candidate) []Candidate {
	if now-ls.sweptAt > unusedListTTL/10 {
		ls.sweptAt = now
		ls.pool.sweep(now)
	}
	return ls.pool.intern(now, cs)
}

// observe learns from an outcome whose failure, if it is one, has the weight. An answer that says that the request is
// wrong, and a client that has left, say nothing of the cluster.
func (ls *Latencies) observe(now time.Duration, o *Outcome, cfg *ClusterMetricsConfig, weight float64) {
	l := ls.of(o.Addr)
	if o.Verdict == Neutral || o.Verdict == Rejected {
		return
	}
	failed := o.Verdict != Success
	if !failed || weight >= clearFailure {
		l.rateOutcome(now, failed)
	}
	switch {
	case !failed:
		l.streak, l.coolsUntil = 0, 0
	case weight >= clearFailure:
		l.streak++
		l.coolsUntil = now + cfg.cooldown()
	}
	if o.Whole <= 0 {
		return
	}
	first, whole := ms(o.FirstPart), ms(o.Whole)
	if first == 0 { // without an answer
		first = whole
	}
	if failed { // else one that fails fast would be the fastest
		first, whole = 2*max(first, ls.slowest(l, firstOf)), 2*max(whole, ls.slowest(l, wholeOf))
	}
	l.learn(now-o.Whole, first, whole, cfg)
}

// learn takes over how long an answer took to a request that was placed then. What was known before the cluster was
// neglected does not count any more.
func (l *latency) learn(placedAt time.Duration, first, whole float64, cfg *ClusterMetricsConfig) {
	if placedAt-l.placedAt >= neglectedFor {
		l.answers = 0
	}
	l.placedAt = max(l.placedAt, placedAt)
	l.answers++
	gain := 1 / float64(min(l.answers, cfg.QueueSize))
	if cfg.Mode == AdaptiveScore && l.answers > 1 {
		gain = 1 - cfg.HistoryPart
	}
	l.first += gain * (first - l.first)
	l.whole += gain * (whole - l.whole)
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

// withoutCooling returns the candidates that have not failed lately; all if there are none.
func (ls *Latencies) withoutCooling(now time.Duration, cs []Candidate) []Candidate {
	left := slices.DeleteFunc(slices.Clone(cs), func(c Candidate) bool { return now < ls.of(c.Addr).coolsUntil })
	if len(left) == 0 {
		return cs
	}
	return left
}

func firstOf(l *latency) float64 { return l.first }
func wholeOf(l *latency) float64 { return l.whole }

// slowest returns the highest of a latency over all other clusters.
func (ls *Latencies) slowest(than *latency, of func(*latency) float64) (highest float64) {
	for _, l := range ls.by {
		if l != than {
			highest = max(highest, of(l))
		}
	}
	return highest
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
