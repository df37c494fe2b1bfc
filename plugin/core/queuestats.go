package core

import (
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

// usesQueue notes that a request of the cluster may wait.
func (w *waiting) usesQueue() {
	pl := w.pl
	q, l := &pl.cluster.queue, &pl.lease
	q.config, q.store, q.redis, q.candidates = pl.cfg, l.store, nil, l.reservation.plan.Candidates
	if l.redis != nil {
		q.redis = l.redis.remote
	}
	if pl.computes() {
		q.tokens = l.reservation.plan.AddedTokens(0)
	}
}

// expected returns the time in which all that wait now are likely to be placed, at least what the store expects for the
// request, which is 0 if that is not known. As long as too few were granted an endpoint to know how fast that goes,
// what is in flight is taken to last as long as answers so far, or as clients are told to wait, whichever is longer.
func (w *waiting) expected(now, atLeast time.Duration) time.Duration {
	pl := w.pl
	cl := pl.cluster
	q := &cl.queue
	if q.config != nil && now-q.readAt >= readPeriod {
		pl.plugin.vm.gauges.readQueue(now, cl)
	}
	waiting := max(q.stats.Waiting, cl.waiting)
	switch {
	case q.stats.Interval > 0 && atLeast > 0:
		return atLeast
	case q.stats.Interval > 0:
		return time.Duration(waiting+1) * q.stats.Interval
	case waiting == 0 || pl.lease.reservation.plan.HasBudget():
		return atLeast
	}
	each := max(cl.answers.Typical(), pl.cfg.Overload.RetryAfter)
	return max(atLeast, each*time.Duration(waiting+1)/time.Duration(max(q.running, int64(len(q.candidates)), 1)))
}

// countPlaced counts a request that was placed.
func (w *waiting) countPlaced() {
	pl, cl := w.pl, w.pl.cluster
	if w.class == nil {
		return
	}
	cl.queue.pressure.Add(pl.plugin.vm.Clock(), w.waited, false)
	if w.queued {
		name := stats.OfClass(stats.QueueWait, cl.name, w.class.Name)
		pl.plugin.vm.Stats.RecordIf(name, uint64(w.waited.Milliseconds()))
	}
}

// countRefused counts a request that was refused.
func (w *waiting) countRefused(why lb.Reason) {
	pl, cl, now := w.pl, w.pl.cluster, w.pl.plugin.vm.Clock()
	if isBudget(why) {
		pl.plugin.vm.Stats.CountIf(statname.With(stats.BudgetRefusals, "cluster", cl.name, "reason", why.String()), 1)
	}
	if w.class == nil {
		return
	}
	if why != lb.ReasonTenantOverBudget { // which says nothing about the targets
		cl.queue.pressure.Add(now, 0, true)
	}
	cl.retries.failed(now, w.attempt.digest)
	pl.plugin.vm.Stats.CountIf(statname.With(stats.Refusals,
		"cluster", cl.name, "class", w.class.Name, "reason", why.String()), 1)
}

// countLeft counts a request that is over while it waits: its client has left, or the gateway has answered.
func (w *waiting) countLeft() {
	pl, cl, now := w.pl, w.pl.cluster, w.pl.lease.now()
	w.queued, w.waited = true, now-w.since
	cl.queue.pressure.Add(now, w.waited, false)
	cl.retries.failed(now, w.attempt.digest)
	pl.plugin.vm.Stats.CountIf(stats.OfClass(stats.Left, cl.name, w.class.Name), 1)
}

// answerEnded takes over how long the answer took, or that there was none.
func (j *judging) answerEnded(now time.Duration, verdict lb.Verdict) {
	pl := j.pl
	switch {
	case pl.wait.class == nil || !pl.computes():
	case verdict == lb.Success:
		pl.cluster.answers.Add(now - pl.placedAt())
	case !pl.response.complete:
		pl.cluster.answers.AddIncomplete(now - pl.placedAt())
		pl.cluster.retries.failed(now, pl.wait.attempt.digest)
	}
}
