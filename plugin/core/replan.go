package core

import (
	"github.com/warmgate/warmgate/lb"
)

// This file is how a placement is planned again, and what comes of one that waits meanwhile.

// reserveAgain reserves for a request that has waited, with a new plan.
func (pl *placement) reserveAgain() result {
	pl.shared.waiters.Remove(&pl.wait.Waiter)
	pl.wait.queued = true
	return pl.replan()
}

// replan reserves with a new plan, for a request that has no reservation any more.
func (pl *placement) replan() result {
	v, r := pl.shared, &pl.lease.reservation
	now := pl.lease.now()
	view, why := v.views.Of(now, pl.Scope, pl.Config), lb.ReasonNoEndpoints
	if view != nil {
		wait := r.plan.Wait
		if why = pl.makePlan(now, view); why == lb.ReasonChosen {
			wait.Since = pl.wait.Since
			r.plan.Wait = wait
			return result{step: stepReady, at: now}
		}
	}
	return result{step: stepNoPlan, why: why}
}

// maxOverflows is how often a request is planned again because a circuit breaker has no room for it.
const maxOverflows = 8

// chooseAnother plans a request again that does not fit into the cluster that was granted.
func (pl *placement) chooseAnother(cluster string) result {
	l := &pl.lease
	if p := &l.reservation.plan; len(p.Prefix.Blocks) > 0 {
		l.store.ForgetPrompt(l.now(), l.reservation.id, p, cluster, l.reservation.grant.Cached)
	}
	pl.undoGrant(cluster)
	if l.overflows++; l.overflows > maxOverflows {
		pl.closeLease()
		return result{step: stepLeft, why: lb.ReasonNoClusterAvailable}
	}
	return pl.replan()
}

// undoGrant releases a grant that is not used.
func (pl *placement) undoGrant(addr string) {
	l := &pl.lease
	l.charged(addr)
	l.giveBack(&l.budget.target)
	pl.wait.noteUnserved()
	l.store.Release(l.now(), l.reservation.id)
}

// bodyGrew is called when more of the body has come while the store decides.
func (pl *placement) bodyGrew() result {
	w := &pl.wait
	if !w.mayWait() {
		return result{step: stepWaits}
	}
	fits, all := false, pl.shared.waiters
	// it may be granted what others have left
	if pl.lease.reservation.during(func() { fits = all.Grow(&w.Waiter, w.heldBytes()) }) {
		return pl.finishReservation()
	}
	if fits {
		return result{step: stepWaits}
	}
	pl.release()
	return pl.refusedAsFull(lb.ReasonMaxQueueSizeExceeded, 0)
}

// makeWay ends the wait of the request, whose memory another one needs, as if the queue had been full. It returns false
// if it does not wait, or its own callback goes on with that.
func (pl *placement) makeWay() (r result, ended bool) {
	l := &pl.lease
	c := &l.reservation.claim
	if pl.phase != phaseReserving || c.done {
		return result{}, false
	}
	inside := c.inCallback
	c.inCallback = true // whatever the store answers to this
	l.store.Release(l.now(), c.id)
	c.inCallback = inside
	c.answer(lb.Grant{Queued: true}, lb.ErrEvicted)
	if pl.wait.Over = inside; inside {
		return result{}, false
	}
	return pl.finishReservation(), true
}

// overflows reports whether the cluster that was granted has no room for the request: others have come first since it
// was planned.
func (pl *placement) overflows(cluster string) bool {
	if !pl.Config.AmongClusters() || pl.Config.Shadow {
		return false
	}
	l := &pl.lease
	return pl.shared.views.Overflows(pl.Scope, pl.Config, cluster, l.reservation.grant.Load.Requests, l.redis != nil)
}

// planAnew plans and reserves for a request that had no plan.
func (pl *placement) planAnew() result {
	now := pl.shared.Clock()
	view, why := pl.shared.views.Of(now, pl.Scope, pl.Config), lb.ReasonNoEndpoints
	if view != nil {
		why = pl.makePlan(now, view)
	}
	if why != lb.ReasonChosen {
		return result{step: stepLeft, why: why}
	}
	return pl.reserve()
}
