package core

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/learned"
)

// A request waits in the queue of its cluster while no endpoint is open for it. Its store keeps the place in the queue,
// and the gateway holds the request, in phaseReserving. This file is how a request may wait, and what comes of it.

// waiting is how a request may wait, and for how long it has.
type waiting struct {
	waiter
	pl      *choice
	class   *config.Class // nil where no queue is configured
	refusal lb.Reason     // why it is refused when it may not wait and no endpoint is open
	attempt attempt       // by which its retries are known
	tenant  uint64        // see tenantName; 0 for none
	place   lb.Place      // where it waits
	queued  bool          // it had to wait
	waited  time.Duration // for how long, once that is over
}

// claimBytes is how much of a body that the gateway holds in front of the plugin counts at most: it stops reading at a
// limit of its own, and a client that only announces a body must not take the room of others.
const claimBytes = 1 << 20

// prepare puts into the plan how the request waits. It returns ReasonChosen, or why the request is refused whether
// an endpoint is open or not.
//
// A request whose answer would come after its deadline even if it was placed now, as far as answers so far show, does
// not wait, but takes an endpoint that is open: what is typical of all answers says little about one.
func (w *waiting) prepare(now time.Duration) lb.Reason {
	pl := w.pl
	v, q := pl.plugin.vm, &pl.Config.Queue
	pl.Traits.Read(pl.Gateway)
	w.class, w.since, w.refusal = pl.Traits.Class(pl.Config), cmp.Or(w.since, now), lb.ReasonAtCapacity
	w.scope, w.config, w.cluster, w.context, w.rank = pl.Scope, pl.Config, pl.Cluster, pl.Context, w.class.Rank
	if q.TenantHeader != "" {
		w.tenant = learned.TenantName(pl.Traits.Value(q.TenantHeader))
		w.turn = v.waiters.tenants.TurnOf(w.tenant)
	}
	a, work, retries := &w.attempt, &pl.Prompt.Work, &pl.Cluster.Retries
	a.name(&pl.Traits, pl.Prompt.Chain, work.Model.Model, work.Info.TextBytes)
	a.begin(now, retries)
	forwarded := pl.region.here || pl.region.to != "" // then it was counted before
	if !forwarded &&
		!retries.Allows(now, a.isRetry(now, &pl.Traits, retries), q.RetryBudget, pl.Cluster.Overloaded(now)) {
		return lb.ReasonRetryBudgetExceeded
	}
	most := w.longest() - (now - w.since)
	if deadline, ok := parseTimeout(pl.Traits.Value(q.DeadlineHeader)); ok {
		left := deadline - (now - pl.Body.BeganAt)
		if left <= 0 {
			return lb.ReasonDeadlineUnreachable
		}
		most = min(most, left-pl.Cluster.Answers.Typical())
	}
	switch {
	case most <= 0:
		w.refusal = lb.ReasonDeadlineUnreachable
	case !v.waiters.mayHold(&w.waiter, w.heldBytes()):
		w.refusal = lb.ReasonMaxQueueSizeExceeded
	default:
		w.until = now + most
		pl.lease.reservation.plan.Wait = w.plan(most)
	}
	return lb.ReasonChosen
}

// plan returns how the request waits, for as long as given.
func (w *waiting) plan(most time.Duration) lb.Wait {
	pl := w.pl
	q := &pl.Config.Queue
	return lb.Wait{
		Max: most, Class: w.class.Class, Tenant: w.turn, Strict: q.Order == config.Strict, Aging: q.Aging,
		Skip: q.Skip, Patience: q.Patience, Length: q.MaxLength, Reserved: q.Reserved(),
		TenantLength: q.TenantLength(), Limits: pl.Cluster.CapsOf(pl.Config), Place: &w.place,
	}
}

// longest returns for how long the request waits at most: not beyond the time in which a gateway in front of this
// one, or its client, wants the answer. The route's own timeout begins only when the request goes on.
func (w *waiting) longest() time.Duration {
	most := w.pl.Config.Queue.MaxWait
	for _, name := range [...]string{"x-envoy-upstream-rq-timeout-ms", "x-envoy-expected-rq-timeout-ms"} {
		if limit, ok := parseTimeout(w.pl.Traits.Value(name)); ok && limit > 0 {
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

// mayWait reports whether the request waits, or has waited, in a queue.
func (w *waiting) mayWait() bool { return w.pl.lease.reservation.plan.Wait.Waits() }

// isQueued reports whether the request is in a queue. With Redis it may only wait for an answer.
func (w *waiting) isQueued() bool {
	return w.mayWait() && w.pl.lease.store.Waits(w.pl.lease.reservation.id)
}

// ended takes over what the store has answered.
func (w *waiting) ended(g *lb.Grant, err error) {
	pl := w.pl
	if w.class == nil {
		return
	}
	now := pl.lease.now()
	if w.queued = w.queued || g.Queued; w.queued || err != nil && w.mayWait() {
		w.waited = now - w.since
	}
	if err != nil || !w.queued {
		return
	}
	pl.lease.grantedAt = now
	if pl.Prompt.Chain != nil {
		pl.Prompt.Chain.Planned = now // what it has waited for here is no time of the endpoint
	}
}

// refusalOf returns why a request is refused whose store has returned the error, ReasonStoreError if it is not.
func (w *waiting) refusalOf(err error) lb.Reason {
	switch {
	case errors.Is(err, lb.ErrOverBudget) && (w.class == nil || w.refusal == lb.ReasonAtCapacity):
		return lb.ReasonOverBudget
	case errors.Is(err, lb.ErrOverBudget):
		return w.refusal
	case errors.Is(err, lb.ErrFull) && w.class == nil:
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

// bodyGrew is called when more of the body has come while the store decides.
func (w *waiting) bodyGrew() host.Action {
	pl := w.pl
	if !w.mayWait() {
		return host.Stop
	}
	r := &pl.lease.reservation
	fits := false
	waiters := pl.plugin.vm.waiters
	if r.during(func() { fits = waiters.grow(&w.waiter, w.heldBytes()) }) { // it was granted what others have left
		return pl.finishReservation()
	}
	if fits {
		return host.Stop
	}
	pl.release()
	return pl.refusal.refuseFull(lb.ReasonMaxQueueSizeExceeded, 0)
}

// heldBytes returns how much of the request's body is held for it while it waits, as far as that is known.
func (w *waiting) heldBytes() int {
	return max(w.pl.Body.Received, min(w.pl.Traits.Length, claimBytes))
}

// reservedAs notes the reservation with which the request may wait.
func (w *waiting) reservedAs(l *lease) {
	w.id, w.store, w.redis = l.reservation.id, l.store, l.redis != nil
	w.view, w.plannedAt, w.over = l.reservation.view, l.plannedAt, false
}

// reserveAgain reserves for a request that has waited, with a new plan.
func (w *waiting) reserveAgain() host.Action {
	w.pl.plugin.vm.waiters.remove(&w.waiter)
	w.queued = true
	return w.replan()
}

// replan reserves with a new plan, for a request that has no reservation any more.
func (w *waiting) replan() host.Action {
	pl := w.pl
	v, r := pl.plugin.vm, &pl.lease.reservation
	now := pl.lease.now()
	view, why := v.views.Of(now, pl.Scope, pl.Config), lb.ReasonNoEndpoints
	if view != nil {
		wait := r.plan.Wait
		if why = pl.makePlan(now, view); why == lb.ReasonChosen {
			wait.Since = w.since
			r.plan.Wait = wait
			return pl.submit(now)
		}
	}
	if why == lb.ReasonNoHealthyEndpoint {
		if a, forwarded := pl.region.forward(); forwarded {
			return a
		}
	}
	pl.closeLease()
	return pl.pass(why)
}

// text returns the class and the wait for the access log, "" where no queue is configured.
func (w *waiting) text() string {
	if w.class == nil {
		return ""
	}
	return " class=" + w.class.Name + " wait=" + w.millis() + "ms"
}

// millis returns for how long the request has waited, in milliseconds.
func (w *waiting) millis() string { return strconv.FormatInt(w.waited.Milliseconds(), 10) }
