package placement

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/learned"
	"github.com/warmgate/warmgate/plugin/waiters"
)

// A request waits in the queue of its cluster while no endpoint is open for it. Its store keeps the place in the queue,
// and the gateway holds the request, in PhaseReserving. This file is how a request may wait, and what comes of it.

// waiting is how a request may wait, and for how long it has.
type waiting struct {
	waiters.Waiter
	of    *basis
	Class *config.Class // nil where no queue is configured
	// Forwarded: by another region, or to the servers of one, so its retries were counted before
	Forwarded bool
	refusal   lb.Reason     // why it is refused when it may not wait and no endpoint is open
	attempt   attempt       // by which its retries are known
	tenant    uint64        // by learned.TenantName; 0 for none
	place     lb.Place      // where it waits
	queued    bool          // it had to wait
	waited    time.Duration // for how long, once that is over
}

// maxAnnounced is how much of a body that the gateway holds in front of the plugin counts at most: it stops reading at
// a limit of its own, and a client that only announces a body must not take the room of others.
const maxAnnounced = 1 << 20

// prepare puts into the plan how the request waits. It returns ReasonChosen, or why the request is refused whether
// an endpoint is open or not.
//
// A request whose answer would come after its deadline even if it was placed now, as far as answers so far show, does
// not wait, but takes an endpoint that is open: what is typical of all answers says little about one.
func (w *waiting) prepare(now time.Duration) lb.Reason {
	of := w.of
	v, q := of.Shared, &of.Config.Queue
	of.Traits.Read(of.Gateway)
	w.Class, w.Since, w.refusal = of.Class(), cmp.Or(w.Since, now), lb.ReasonAtCapacity
	w.Scope, w.Config, w.Cluster, w.Context, w.Rank = of.Scope, of.Config, of.Cluster, of.Context, w.Class.Rank
	if q.TenantHeader != "" {
		w.tenant = learned.TenantName(of.Traits.Value(q.TenantHeader))
		w.Turn = v.Waiters.Tenants.TurnOf(w.tenant)
	}
	if !of.Trial && w.isRetryTooMany(now) {
		return lb.ReasonRetryBudgetExceeded
	}
	most := w.longest() - (now - w.Since)
	if deadline, ok := parseTimeout(of.Traits.Value(q.DeadlineHeader)); ok {
		left := deadline - (now - of.Body.BeganAt)
		if left <= 0 {
			return lb.ReasonDeadlineUnreachable
		}
		most = min(most, left-of.Cluster.Answers.Typical())
	}
	switch {
	case most <= 0:
		w.refusal = lb.ReasonDeadlineUnreachable
	case !v.Waiters.MayHold(&w.Waiter, w.heldBytes()):
		w.refusal = lb.ReasonMaxQueueSizeExceeded
	default:
		w.Until = now + most
		of.Lease.Reservation.Plan.Wait = w.plan(most)
	}
	return lb.ReasonChosen
}

// isRetryTooMany notes the attempt, and reports whether it is a retry for which there is no budget.
func (w *waiting) isRetryTooMany(now time.Duration) bool {
	of := w.of
	a, work, retries := &w.attempt, &of.Prompt.Work, &of.Cluster.Retries
	a.name(&of.Traits, of.Prompt.Chain, work.Model.Model, work.Info.TextBytes)
	a.begin(now, retries)
	return !w.Forwarded && !retries.Allows(
		now, a.isRetry(now, &of.Traits, retries), of.Config.Queue.RetryBudget, of.Cluster.Overloaded(now))
}

// plan returns how the request waits, for as long as given.
func (w *waiting) plan(most time.Duration) lb.Wait {
	of := w.of
	q := &of.Config.Queue
	return lb.Wait{
		Max: most, Class: w.Class.Class, Tenant: w.turn(), Strict: q.Order == config.Strict, Aging: q.Aging,
		Skip: q.Skip, Patience: q.Patience, Length: q.MaxLength, Reserved: q.Reserved(),
		TenantLength: q.TenantLength(), Limits: of.Cluster.CapsOf(of.Config), Place: &w.place,
	}
}

// turn returns who takes turns for the request: its tenant, and where sessions do its session.
func (w *waiting) turn() uint64 {
	if !w.of.Config.QueuesSessions() {
		return w.Turn
	}
	return lb.TurnOf(w.Turn, w.of.Session.Key)
}

// longest returns for how long the request waits at most: not beyond the time in which a gateway in front of this
// one, or its client, wants the answer. The route's own timeout begins only when the request goes on.
func (w *waiting) longest() time.Duration {
	most := w.of.Config.Queue.MaxWait
	for _, name := range [...]string{"x-envoy-upstream-rq-timeout-ms", "x-envoy-expected-rq-timeout-ms"} {
		if limit, ok := parseTimeout(w.of.Traits.Value(name)); ok && limit > 0 {
			most = min(most, limit)
		}
	}
	return most
}

// parseTimeout reads milliseconds, or a number with a unit such as "30s".
func parseTimeout(text string) (d time.Duration, ok bool) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(max(ms, 0), int64(24*time.Hour/time.Millisecond))) * time.Millisecond, true
	}
	d, err := time.ParseDuration(text)
	return max(d, 0), err == nil
}

// MayWait reports whether the request waits, or has waited, in a queue.
func (w *waiting) MayWait() bool { return w.of.Lease.Reservation.Plan.Wait.Waits() }

// IsUnplanned reports whether the request waits for a plan.
func (w *waiting) IsUnplanned() bool {
	return w.of.Phase == PhaseReserving && w.MayWait() && len(w.of.Lease.Reservation.Plan.Candidates) == 0
}

// IsQueued reports whether the request is in a queue. With Redis it may only wait for an answer.
func (w *waiting) IsQueued() bool {
	return w.MayWait() && w.of.Lease.store.Waits(w.of.Lease.Reservation.id)
}

// ended takes over what the store has answered.
func (w *waiting) ended(g *lb.Grant, err error) {
	of := w.of
	if w.Class == nil {
		return
	}
	now := of.Lease.Now()
	if w.queued = w.queued || g.Queued; w.queued || err != nil && w.MayWait() {
		w.waited = now - w.Since
	}
	if err != nil || !w.queued {
		return
	}
	of.Lease.GrantedAt = now
	if of.Prompt.Chain != nil {
		of.Prompt.Chain.Planned = now // what it has waited for here is no time of the endpoint
	}
}

// refusalOf returns why a request is refused whose store has returned the error, ReasonStoreError if it is not.
func (w *waiting) refusalOf(err error) lb.Reason {
	switch {
	case errors.Is(err, lb.ErrOverBudget) && (w.Class == nil || w.refusal == lb.ReasonAtCapacity):
		return lb.ReasonOverBudget
	case errors.Is(err, lb.ErrOverBudget):
		return w.refusal
	case errors.Is(err, lb.ErrFull) && w.Class == nil:
		return lb.ReasonAtCapacity
	case errors.Is(err, lb.ErrFull):
		return w.refusal
	case errors.Is(err, lb.ErrQueueFull), errors.Is(err, lb.ErrEvicted):
		return lb.ReasonMaxQueueSizeExceeded
	case errors.Is(err, lb.ErrHopeless):
		return lb.ReasonDeadlineUnreachable
	case errors.Is(err, lb.ErrWaitOver):
		return lb.ReasonQueueTimeout
	}
	return lb.ReasonStoreError
}

// heldBytes returns how much of the request's body is held for it while it waits, as far as that is known.
func (w *waiting) heldBytes() int {
	return max(w.of.Body.Received, min(w.of.Traits.Length, maxAnnounced))
}

// reservedAs notes the reservation with which the request may wait.
func (w *waiting) reservedAs(l *lease) {
	w.ID, w.Store, w.Redis = l.Reservation.id, l.store, l.Redis != nil
	w.View, w.PlannedAt, w.Unplanned = l.Reservation.view, l.plannedAt, w.IsUnplanned()
}

// AppendText appends the class and the wait to a line of the access log, where a queue is configured.
func (w *waiting) AppendText(line []byte) []byte {
	if w.Class == nil {
		return line
	}
	line = append(append(append(line, " class="...), w.Class.Name...), " wait="...)
	return append(strconv.AppendInt(line, w.waited.Milliseconds(), 10), "ms"...)
}

// Millis returns for how long the request has waited, in milliseconds.
func (w *waiting) Millis() string { return strconv.FormatInt(w.waited.Milliseconds(), 10) }
