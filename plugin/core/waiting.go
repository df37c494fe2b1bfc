package core

import (
	"cmp"
	"errors"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// A request waits in the queue of its cluster while no endpoint is open for it. Its store keeps the place in the queue,
// and the gateway holds the request, in phaseReserving. This file is how a request may wait, and what comes of it.

// waiting is how a request may wait, and for how long it has.
type waiting struct {
	class   *config.Class // nil where no queue is configured
	refusal lb.Reason     // why it is refused when it may not wait and no endpoint is open
	attempt attempt       // by which its retries are known
	tenant  uint64        // see tenantName; 0 for none
	turn    uint64        // with which tenant it takes turns; 0 for none
	since   time.Duration // when it was first reserved
	until   time.Duration // when its wait is over
	place   lb.Place      // where it waits
	queued  bool          // it had to wait
	waited  time.Duration // for how long, once that is over
}

// replanAfter is how old the plan of a waiting request is at least before its endpoints are looked up again.
const replanAfter = 2 * tickPeriod

// prepareWait puts into the plan how the request waits. It returns ReasonChosen, or why the request is refused whether
// an endpoint is open or not.
//
// A request whose answer would come after its deadline even if it was placed now, as far as answers so far show, does
// not wait, but takes an endpoint that is open: what is typical of all answers says little about one.
func (s *Stream) prepareWait(now time.Duration) lb.Reason {
	v, q, w := s.plugin.vm, &s.cfg.Queue, &s.wait
	s.traits.read(s)
	w.class, w.since, w.refusal = s.traits.class(s.cfg), cmp.Or(w.since, now), lb.ReasonAtCapacity
	if q.TenantHeader != "" {
		w.tenant = tenantName(s.traits.value(q.TenantHeader))
		w.turn = v.waiters.tenants.turnOf(w.tenant)
	}
	s.nameAttempt(now)
	forwarded := s.region.here || s.region.to != "" // then it was counted before
	if !forwarded && !s.cluster.retries.allows(now, s.isRetry(now), q.RetryBudget, s.cluster.overloaded(now)) {
		return lb.ReasonRetryBudgetExceeded
	}
	most := s.longestWait() - (now - w.since)
	if deadline, ok := parseTimeout(s.traits.value(q.DeadlineHeader)); ok {
		left := deadline - (now - s.body.beganAt)
		if left <= 0 {
			return lb.ReasonDeadlineUnreachable
		}
		most = min(most, left-s.cluster.answers.typical())
	}
	switch {
	case most <= 0:
		w.refusal = lb.ReasonDeadlineUnreachable
	case !v.waiters.mayHold(s):
		w.refusal = lb.ReasonMaxQueueSizeExceeded
	default:
		w.until = now + most
		s.lease.reservation.plan.Wait = s.waitFor(most)
	}
	return lb.ReasonChosen
}

// waitFor returns how the request waits, for as long as given.
func (s *Stream) waitFor(most time.Duration) lb.Wait {
	q := &s.cfg.Queue
	return lb.Wait{
		Max: most, Class: s.wait.class.Class, Tenant: s.wait.turn, Strict: q.Order == config.Strict, Aging: q.Aging,
		Skip: q.Skip, Patience: q.Patience, Length: q.MaxLength, Reserved: q.Reserved(),
		TenantLength: q.TenantLength(), Limits: s.cluster.capsOf(s.cfg), Place: &s.wait.place,
	}
}

// longestWait returns for how long the request waits at most: not beyond the time in which a gateway in front of this
// one, or its client, wants the answer. The route's own timeout begins only when the request goes on.
func (s *Stream) longestWait() time.Duration {
	most := s.cfg.Queue.MaxWait
	for _, name := range [...]string{"x-envoy-upstream-rq-timeout-ms", "x-envoy-expected-rq-timeout-ms"} {
		if limit, ok := parseTimeout(s.traits.value(name)); ok && limit > 0 {
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
func (s *Stream) mayWait() bool { return s.lease.reservation.plan.Wait.Waits() }

// isQueued reports whether the request is in a queue. With Redis it may only wait for an answer.
func (s *Stream) isQueued() bool { return s.mayWait() && s.lease.store.Waits(s.lease.id) }

// waitEnded takes over what the store has answered.
func (s *Stream) waitEnded(g *lb.Grant, err error) {
	w := &s.wait
	if w.class == nil {
		return
	}
	now := s.lease.now()
	if w.queued = w.queued || g.Queued; w.queued || err != nil && s.mayWait() {
		w.waited = now - w.since
	}
	if err != nil || !w.queued {
		return
	}
	s.body.grantedAt = now
	if s.chain != nil {
		s.chain.planned = s.body.grantedAt // what it has waited for here is no time of the endpoint
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
func (s *Stream) bodyGrew() Action {
	if !s.mayWait() {
		return Stop
	}
	r := &s.lease.reservation
	r.inCallback = true
	fits := s.plugin.vm.waiters.grow(s)
	if r.inCallback = false; r.done { // it was granted what others have left
		return s.finishReservation()
	}
	if fits {
		return Stop
	}
	s.release()
	return s.refuseFull(lb.ReasonMaxQueueSizeExceeded, 0)
}

// planAgain gives the request the endpoints that there are by now. It keeps its place in the queue.
func (s *Stream) planAgain() {
	if s.phase != phaseReserving || s.lease.reservation.done {
		return
	}
	l := &s.lease
	store, old := l.store, l.id
	defer func() {
		l.reservation.plan.Wait.Instead = 0
		store.Release(l.now(), old) // what the new reservation has not taken over
	}()
	l.reservation.plan.Wait.Instead = old
	if s.reserveAgain() == Proceed {
		s.Resume()
	}
}

// reserveAgain reserves for a request that has waited, with a new plan.
func (s *Stream) reserveAgain() Action {
	s.plugin.vm.waiters.remove(s)
	s.wait.queued = true
	return s.replan()
}

// replan reserves with a new plan, for a request that has no reservation any more.
func (s *Stream) replan() Action {
	v, r := s.plugin.vm, &s.lease.reservation
	now := s.lease.now()
	view, why := v.views.of(now, s.scope, s.cfg), lb.ReasonNoEndpoints
	if view != nil {
		wait := r.plan.Wait
		if why = s.makePlan(now, view); why == lb.ReasonChosen {
			wait.Since = s.wait.since
			r.plan.Wait = wait
			return s.submit(now)
		}
	}
	if why == lb.ReasonNoHealthyEndpoint {
		if a, forwarded := s.forward(); forwarded {
			return a
		}
	}
	s.closeLease()
	return s.pass(why)
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
