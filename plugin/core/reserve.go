package core

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// This file is how a placement comes to its lease, and how it gives it back.

// timedEvery is how many reservations there are for each one whose duration is measured.
const timedEvery = 16

// reserve has the request counted at its tenant, before the store chooses an endpoint.
func (pl *placement) reserve() result {
	v, l := pl.shared, &pl.lease
	l.store, l.redis = v.stores.Of(pl.Config)
	now := l.now()
	if pl.Config.Queue.Enabled() && !pl.Config.Shadow && !pl.Idle() {
		now = v.ReadClock()
		pl.wait.usesQueue()
		if why := pl.wait.prepare(now); why != lb.ReasonChosen {
			pl.enter(phaseUncounted)
			return result{step: stepRefused, why: why}
		}
	}
	pl.enter(phaseReserving)
	l.open(pl.Cluster)
	return pl.reserveTenant(now)
}

// ask has the store of the lease answer the claim, under its id, with the plan. It reports whether it has at once; else
// finish runs when it does, unless the request is over then, or the claim has another id. One answer of Redis, or the
// end of another request, may serve several requests: a panic in one of them must not keep the others from theirs.
func (pl *placement) ask(now time.Duration, c *claim, plan *lb.Plan, name string, finish func() result) bool {
	id := c.id
	c.done = false
	return c.during(func() {
		pl.lease.store.Reserve(now, id, plan, func(g lb.Grant, err error) {
			if c.id != id {
				return
			}
			if c.answer(g, err); !c.inCallback && pl.phase == phaseReserving {
				pl.shared.RunAs(pl.Context, name, func() { pl.driver.answered(finish()) },
					pl.driver.GrantRecovered)
			}
		})
	})
}

// submit gives the plan to the store.
func (pl *placement) submit(now time.Duration) result {
	v, l := pl.shared, &pl.lease
	r := &l.reservation
	r.id, r.startedAt = v.stores.NextID(), 0
	if r.id%timedEvery == 1 {
		r.startedAt = v.GW.Now()
	}
	pl.wait.reservedAs(l)
	if pl.ask(now, &r.claim, &r.plan, "the answer to a reservation", pl.finishReservation) {
		return pl.finishReservation()
	}
	return result{step: stepAsked, at: now}
}

// hold has the request wait for the answer of its store, which was asked at the given time.
func (pl *placement) hold(now time.Duration) result {
	v, l := pl.shared, &pl.lease
	if l.redis != nil {
		v.wakeAt(now, now+pl.Config.ReserveTimeout)
	}
	if pl.wait.mayWait() {
		v.wakeAt(now, now+lb.PollPeriod)
		w := &pl.wait
		// it may be granted what others have left
		if l.reservation.during(func() { v.waiters.Add(&w.Waiter, w.heldBytes(), w.queued) }) {
			return pl.finishReservation()
		}
	}
	return result{step: stepWaits}
}

// finishReservation goes on with a request whose store has answered.
func (pl *placement) finishReservation() result {
	v, l := pl.shared, &pl.lease
	r := &l.reservation
	v.waiters.Remove(&pl.wait.Waiter)
	if r.startedAt > 0 && !r.grant.Queued {
		v.Stats.Reserved(v.GW.Now() - r.startedAt)
	}
	pl.wait.ended(&r.grant, r.err)
	if r.err != nil {
		if isFullOrLate(r.err) {
			return result{step: stepNoRoom}
		}
		return pl.giveUp()
	}
	addr := r.plan.Candidates[r.grant.Index].Addr
	gone := !pl.Config.Shadow && l.isGone(addr, pl.Config, v.views)
	if gone && r.grant.Queued {
		pl.undoGrant(addr)
		return pl.reserveAgain()
	}
	if !gone && pl.overflows(addr) {
		return pl.chooseAnother(addr)
	}
	return pl.leased(addr, gone)
}

// isFullOrLate reports whether a request has no room that another region may have.
func isFullOrLate(err error) bool {
	return errors.Is(err, lb.ErrFull) || errors.Is(err, lb.ErrQueueFull) || errors.Is(err, lb.ErrEvicted) ||
		errors.Is(err, lb.ErrHopeless)
}

// giveUp ends a reservation that the store has not granted.
func (pl *placement) giveUp() result {
	r := &pl.lease.reservation
	pl.closeLease()
	if why := pl.wait.refusalOf(r.err); why != lb.ReasonStoreError {
		return pl.refusedAsFull(why, r.grant.Expected)
	}
	return result{step: stepLeft, why: lb.ReasonStoreError}
}

// refusedAsFull refuses a request for which there is no room: the cluster is overloaded.
func (pl *placement) refusedAsFull(why lb.Reason, expected time.Duration) result {
	if !pl.Config.Shadow {
		pl.Cluster.Queue.RefusedAt = pl.shared.Clock()
	}
	return result{step: stepRefused, why: why, expected: expected}
}

// leased counts a request at an endpoint, which may be gone by now.
func (pl *placement) leased(addr string, gone bool) result {
	l := &pl.lease
	r := &l.reservation
	pl.enter(phaseLeased)
	l.load, l.tokens = r.grant.Load.Requests, r.plan.AddedTokens(r.grant.Cached)
	if pl.Prompt.Chain != nil && !pl.Prompt.Chain.Uncached {
		pl.Prompt.Chain.Cached = r.plan.Prefix.Fraction(r.grant.Cached)
	}
	l.chosen, l.addr = addr, addr
	l.charged(addr)
	if gone {
		pl.release()
		return result{step: stepLeft, why: pl.noneHealthy()}
	}
	return result{step: stepPlaced}
}

// requestPlaced notes for health, rate_limit and metrics that the request is at the chosen endpoint, and requests a
// load report from it.
func (pl *placement) requestPlaced() {
	l := &pl.lease
	if pl.Idle() {
		return
	}
	if !pl.Config.Shadow { // else the gateway has chosen
		pl.Cluster.Health.ObserveGrant(&l.reservation.plan, l.reservation.grant.Index, l.reservation.grant.Load)
		pl.Cluster.Shares.Count(pl.shared.Clock(), l.chosen)
		if pl.Cluster.Metrics.Needed() {
			pl.Metrics.Adapter = pl.Cluster.Engines.AddRequest(pl.Metrics.Model, l.chosen, l.tokens)
		}
	}
	pl.Metrics.WantReport(pl.Gateway, &pl.Traits, pl.Config)
}

// abandonReservation ends the wait for the store, or for lists of models: the request is over. Its lease, should the
// store grant it still, is released. It returns the reason to count.
func (pl *placement) abandonReservation() lb.Reason {
	why := pl.lease.reservation.reason
	switch {
	case pl.phase == phaseListing:
		pl.enter(phaseUncounted)
	case pl.wait.isQueued():
		why = lb.ReasonLeftQueue
		pl.wait.countLeft()
	}
	pl.release()
	return why
}

// release ends the lease, if there is or may be one.
func (pl *placement) release() {
	if pl.phase == phaseLeased || pl.phase == phaseReserving {
		now := pl.lease.now()
		pl.closeLease()
		if id := pl.lease.reservation.id; id != 0 { // else it was not counted beyond its tenant
			pl.lease.store.Release(now, id)
		}
	}
}

// closeLease ends the phases in which the request is counted. What it was charged is given back unless it is settled.
func (pl *placement) closeLease() {
	pl.enter(phaseUncounted)
	pl.Body.Forget(&pl.Prompt.Work)
	pl.shared.waiters.Remove(&pl.wait.Waiter)
	pl.lease.giveBack(&pl.lease.budget.target)
	pl.lease.endTenant()
	pl.lease.close()
}

// others returns where retries may be sent: the candidates after the chosen one, so that not all are sent to the same,
// those of its tier first; those of its session in their order.
func others(p *lb.Plan, chosen int) []string {
	const maxOthers = 2
	order := p.Home.Order
	at := 1 + slices.Index(order, uint16(chosen)) // those in front of it were too busy
	out := make([]string, 0, maxOthers)
	for _, part := range [2][]uint16{order[at:], order[:max(0, at-1)]} {
		for _, i := range part[:min(len(part), maxOthers-len(out))] {
			out = append(out, p.Candidates[i].Addr)
		}
	}
	for _, same := range [2]bool{true, false} {
		for i := 1; i < len(p.Candidates) && len(out) < maxOthers; i++ {
			// The plan's random bits were used up by the tie; rotating them by the index is enough here.
			at := (chosen + 1 + (i-1+int(p.Random>>33))%(len(p.Candidates)-1)) % len(p.Candidates)
			c := &p.Candidates[at]
			if (c.Tier == p.Candidates[chosen].Tier) == same && !slices.Contains(out, c.Addr) {
				out = append(out, c.Addr)
			}
		}
	}
	return out
}
