package placement

import (
	"github.com/warmgate/warmgate/lb"
)

// This file is how a placement is planned again, and what comes of one that waits meanwhile.

// reserveAgain reserves for a request that has waited, with a new plan.
func (pl *Placement) reserveAgain() Result {
	pl.Shared.Waiters.Remove(&pl.Wait.Waiter)
	pl.Wait.queued = true
	return pl.replan()
}

// replan reserves with a new plan, for a request that has no reservation any more.
func (pl *Placement) replan() Result {
	v, r := pl.Shared, &pl.Lease.Reservation
	now := pl.Lease.Now()
	view, why := v.Views.Of(now, pl.Scope, pl.Config), lb.ReasonNoEndpoints
	if view != nil {
		wait := r.Plan.Wait
		if why = pl.makePlan(now, view); why == lb.ReasonChosen {
			wait.Since = pl.Wait.Since
			r.Plan.Wait = wait
			if pl.Cluster.Queue.AtZero { // no request but those that wait may have seen the endpoints
				pl.Cluster.Views[view.ListID] = view
				pl.Wait.usesQueue()
			}
			return Result{Step: Ready, At: now}
		}
	}
	return Result{Step: NoPlan, Why: why}
}

// maxOverflows is how often a request is planned again because a circuit breaker has no room for it.
const maxOverflows = 8

// chooseAnother plans a request again that does not fit into the cluster that was granted.
func (pl *Placement) chooseAnother(cluster string) Result {
	l := &pl.Lease
	if p := &l.Reservation.Plan; len(p.Prefix.Blocks) > 0 {
		l.store.ForgetPrompt(l.Now(), l.Reservation.id, p, cluster, l.Reservation.Grant.Cached)
	}
	pl.undoGrant(cluster)
	if l.overflows++; l.overflows > maxOverflows {
		pl.closeLease()
		return Result{Step: Native, Why: lb.ReasonNoClusterAvailable}
	}
	return pl.replan()
}

// undoGrant releases a grant that is not used.
func (pl *Placement) undoGrant(addr string) {
	l := &pl.Lease
	l.charged(addr)
	l.giveBack(&l.Budget.Target)
	pl.Wait.noteUnserved()
	l.store.Release(l.Now(), l.Reservation.id)
}

// BodyGrew is called when more of the body has come while the store decides.
func (pl *Placement) BodyGrew() Result {
	w := &pl.Wait
	if !w.MayWait() {
		return Result{Step: Waits}
	}
	fits, all := false, pl.Shared.Waiters
	// it may be granted what others have left
	if pl.Lease.Reservation.during(func() { fits = all.Grow(&w.Waiter, w.heldBytes()) }) {
		return pl.finishReservation()
	}
	if fits {
		return Result{Step: Waits}
	}
	pl.Release()
	return pl.refusedAsFull(lb.ReasonMaxQueueSizeExceeded, 0)
}

// PlanAgain gives a request that waits the endpoints that there are by now. It keeps its place in the queue.
func (pl *Placement) PlanAgain() {
	if pl.Phase != PhaseReserving || pl.Lease.Reservation.done {
		return
	}
	l := &pl.Lease
	store, old := l.store, l.Reservation.id
	defer func() {
		l.Reservation.Plan.Wait.Instead = 0
		store.Release(l.Now(), old) // what the new reservation has not taken over
	}()
	l.Reservation.Plan.Wait.Instead = old
	pl.driver.Answered(pl.reserveAgain())
}

// GiveWay ends the wait of the request, whose memory another one needs, as if the queue had been full.
func (pl *Placement) GiveWay() {
	l := &pl.Lease
	p := &l.Reservation.pending
	if pl.Phase != PhaseReserving || p.done {
		return
	}
	inside := p.inCallback
	p.inCallback = true // whatever the store answers to this
	l.store.Release(l.Now(), p.id)
	p.inCallback = inside
	p.answer(lb.Grant{Queued: true}, lb.ErrEvicted)
	if inside {
		return // the request's own callback goes on with that
	}
	pl.driver.Answered(pl.finishReservation())
}

// overflows reports whether the cluster that was granted has no room for the request: others have come first since it
// was planned.
func (pl *Placement) overflows(cluster string) bool {
	if !pl.Config.AmongClusters() || pl.Config.Shadow {
		return false
	}
	l := &pl.Lease
	return pl.Shared.Views.Overflows(pl.Scope, pl.Config, cluster, l.Reservation.Grant.Load.Requests, l.Redis != nil)
}

// planAnew plans and reserves for a request that had no plan.
func (pl *Placement) planAnew() Result {
	now := pl.Shared.Clock()
	view, why := pl.Shared.Views.Of(now, pl.Scope, pl.Config), lb.ReasonNoEndpoints
	if view != nil {
		why = pl.makePlan(now, view)
	}
	if why != lb.ReasonChosen {
		return Result{Step: NoPlan, Why: why}
	}
	return pl.reserve()
}
