package placement

import (
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

// usesQueue notes that a request of the cluster may wait.
func (w *waiting) usesQueue() {
	of := w.of
	q, l := &of.Cluster.Queue, &of.Lease
	q.Config, q.Store, q.Redis, q.AtZero = of.Config, l.store, nil, of.isAtZero()
	if q.AtZero {
		q.Candidates = nil
	}
	if r := &l.Reservation; len(r.Plan.Candidates) > 0 && r.Request.Subset == nil { // of all that there are
		q.Candidates = r.Plan.Candidates
	}
	if l.Redis != nil {
		q.Redis = l.Redis.Remote
	}
	if of.Computes() {
		q.Tokens = l.Reservation.Plan.AddedTokens(0)
	}
}

// expected returns the time in which all that wait now are likely to be placed, at least what the store expects for the
// request, which is 0 if that is not known. As long as too few were granted an endpoint to know how fast that goes,
// what is in flight is taken to last as long as answers so far, or as clients are told to wait, whichever is longer.
func (w *waiting) expected(now, atLeast time.Duration) time.Duration {
	of := w.of
	cl := of.Cluster
	q := &cl.Queue
	cl.RefreshQueue(now, of.Shared.Stores.Local)
	waiting := max(q.Stats.Waiting, cl.Waiting)
	switch {
	case q.Stats.Interval > 0 && atLeast > 0:
		return atLeast
	case q.Stats.Interval > 0:
		return time.Duration(waiting+1) * q.Stats.Interval
	case waiting == 0 || of.Lease.Reservation.Plan.HasBudget():
		return atLeast
	}
	each := max(cl.Answers.Typical(), of.Config.Overload.RetryAfter)
	return max(atLeast, each*time.Duration(waiting+1)/time.Duration(max(q.Running, int64(len(q.Candidates)), 1)))
}

// CountPlaced counts a request that was placed.
func (w *waiting) CountPlaced() {
	of, cl := w.of, w.of.Cluster
	if w.Class == nil {
		return
	}
	cl.Queue.Pressure.Add(of.Shared.Clock(), w.waited, false)
	if w.queued {
		name := stats.OfClass(stats.QueueWait, cl.Name, w.Class.Name)
		of.Shared.Stats.RecordIf(name, uint64(w.waited.Milliseconds()))
	}
}

// countRefused counts a request that was refused.
func (w *waiting) countRefused(why lb.Reason) {
	of, cl, now := w.of, w.of.Cluster, w.of.Shared.Clock()
	if isBudget(why) {
		of.Shared.Stats.CountIf(statname.With(stats.BudgetRefusals, "cluster", cl.Name, "reason", why.String()), 1)
	}
	if w.Class == nil {
		return
	}
	if why != lb.ReasonTenantOverBudget { // which says nothing about the targets
		cl.Queue.Pressure.Add(now, 0, true)
	}
	cl.Retries.Failed(now, w.attempt.digest)
	of.Shared.Stats.CountIf(statname.With(stats.Refusals,
		"cluster", cl.Name, "class", w.Class.Name, "reason", why.String()), 1)
}

// countLeft counts a request that is over while it waits: its client has left, or the gateway has answered.
func (w *waiting) countLeft() {
	of, cl, now := w.of, w.of.Cluster, w.of.Lease.Now()
	w.queued, w.waited = true, now-w.Since
	cl.Queue.Pressure.Add(now, w.waited, false)
	cl.Retries.Failed(now, w.attempt.digest)
	of.Shared.Stats.CountIf(stats.OfClass(stats.Left, cl.Name, w.Class.Name), 1)
}

// answerEnded takes over how long the answer took, or that there was none.
func (w *waiting) answerEnded(now time.Duration, verdict lb.Verdict) {
	of := w.of
	switch {
	case w.Class == nil || !of.Computes():
	case verdict == lb.Success:
		of.Cluster.Answers.Add(now - of.placedAt())
	case !of.Response.Complete:
		of.Cluster.Answers.AddIncomplete(now - of.placedAt())
		of.Cluster.Retries.Failed(now, w.attempt.digest)
	}
}
