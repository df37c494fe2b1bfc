package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// This file is how a placement comes to its lease, and how it gives it back.

// timedEvery is how many reservations there are for each one whose duration is measured.
const timedEvery = 16

// reserve has the store choose an endpoint.
func (pl *choice) reserve() host.Action {
	v, l := pl.plugin.vm, &pl.lease
	l.store, l.redis = v.stores.Of(pl.Config)
	now := l.now()
	if pl.Config.Queue.Enabled() && !pl.Config.Shadow && !pl.Idle() {
		now = v.ReadClock()
		pl.wait.usesQueue()
		if why := pl.wait.prepare(now); why != lb.ReasonChosen {
			pl.enter(phaseUncounted)
			return pl.refusal.refuse(why, 0)
		}
	}
	pl.enter(phaseReserving)
	l.open(pl.Cluster)
	return pl.charge.reserveTenant(now)
}

// ask has the store of the lease answer the claim, under its id, with the plan. It reports whether it has at once; else
// finish runs when it does, unless the request is over then, or the claim has another id. One answer of Redis, or the
// end of another request, may serve several requests: a panic in one of them must not keep the others from theirs.
func (pl *choice) ask(now time.Duration, c *claim, plan *lb.Plan, name string, finish func() host.Action) bool {
	id := c.id
	c.done = false
	return c.during(func() {
		pl.lease.store.Reserve(now, id, plan, func(g lb.Grant, err error) {
			if c.id != id {
				return
			}
			if c.answer(g, err); !c.inCallback && pl.phase == phaseReserving {
				pl.plugin.vm.RunAs(pl.Context, name, func() { pl.goOn(finish()) }, pl.grantRecovered)
			}
		})
	})
}

// submit gives the plan to the store.
func (pl *choice) submit(now time.Duration) host.Action {
	v, l := pl.plugin.vm, &pl.lease
	r := &l.reservation
	r.id, r.startedAt = v.stores.NextID(), 0
	if r.id%timedEvery == 1 {
		r.startedAt = v.GW.Now()
	}
	pl.wait.reservedAs(l)
	if a, forwarded := pl.region.forwardBack(); forwarded {
		return a
	}
	if pl.ask(now, &r.claim, &r.plan, "the answer to a reservation", pl.finishReservation) {
		return pl.finishReservation()
	}
	if pl.wait.isQueued() {
		if a, forwarded := pl.region.forward(); forwarded {
			return a
		}
	}
	if l.redis != nil {
		v.ticks.wakeAt(now, now+pl.Config.ReserveTimeout)
	}
	if pl.wait.mayWait() {
		pl.within.prepareInside()
		v.ticks.wakeAt(now, now+lb.PollPeriod)
		w := &pl.wait
		if r.during(func() { v.waiters.add(&w.waiter, w.heldBytes(), w.queued) }) { // it was granted what others left
			return pl.finishReservation()
		}
	}
	return host.Stop
}

// finishReservation steers a request whose store has answered.
func (pl *choice) finishReservation() host.Action {
	v, l := pl.plugin.vm, &pl.lease
	r := &l.reservation
	v.waiters.remove(&pl.wait.waiter)
	if r.startedAt > 0 && !r.grant.Queued {
		v.Stats.Reserved(v.GW.Now() - r.startedAt)
	}
	pl.wait.ended(&r.grant, r.err)
	if r.err != nil {
		if isFullOrLate(r.err) {
			if a, forwarded := pl.region.forward(); forwarded {
				return a
			}
		}
		pl.closeLease()
		if why := pl.wait.refusalOf(r.err); why != lb.ReasonStoreError {
			return pl.refusal.refuseFull(why, r.grant.Expected)
		}
		return pl.pass(lb.ReasonStoreError)
	}
	addr := r.plan.Candidates[r.grant.Index].Addr
	gone := !pl.Config.Shadow && l.isGone(addr, pl.Config, v.views)
	if gone && r.grant.Queued {
		pl.charge.undoGrant(addr)
		return pl.wait.reserveAgain()
	}
	if !gone && pl.steer.overflows(addr) {
		return pl.steer.chooseAnother(addr)
	}
	return pl.leased(addr, gone)
}

// leased steers a request that is counted at an endpoint, which may be gone by now.
func (pl *choice) leased(addr string, gone bool) host.Action {
	v, l := pl.plugin.vm, &pl.lease
	r := &l.reservation
	pl.enter(phaseLeased)
	l.load, l.tokens = r.grant.Load.Requests, r.plan.AddedTokens(r.grant.Cached)
	if pl.Prompt.Chain != nil && !pl.Prompt.Chain.Uncached {
		pl.Prompt.Chain.Cached = r.plan.Prefix.Fraction(r.grant.Cached)
	}
	l.chosen, l.addr = addr, addr
	l.charged(addr)
	switch {
	case pl.Config.Shadow:
		r.reason = lb.ReasonShadow
		pl.steer.leaveToGateway()
	case gone:
		pl.release()
		return pl.pass(pl.noneHealthy())
	default:
		if err := pl.steer.send(); err != nil {
			v.GW.Log(host.Warn, "the gateway refused the destination "+l.chosen+": "+err.Error())
			pl.release()
			return pl.pass(lb.ReasonStoreError)
		}
	}
	r.reason = pl.State.Placed(r.reason, r.grant.Cached)
	pl.serving.sessionPlaced()
	pl.decided(r.reason)
	pl.wait.countPlaced()
	pl.requestPlaced()
	if w := &pl.Prompt.Work; w.Open && w.Seen > 0 {
		pl.Body.Track(w, pl)
	}
	if pl.Body.EndedAt > 0 {
		pl.amendWork() // the end of the body has come while the store decided
	}
	if pl.Config.DetailLog {
		v.GW.Log(host.Info, "cluster="+pl.Cluster.Name+" "+pl.debug.describe())
	}
	return pl.within.chooseInside()
}

// requestPlaced notes for health, rate_limit and metrics that the request is at the chosen endpoint, and requests a
// load report from it.
func (pl *choice) requestPlaced() {
	l := &pl.lease
	if pl.Idle() {
		return
	}
	if !pl.Config.Shadow { // else the gateway has chosen
		pl.Cluster.Health.ObserveGrant(&l.reservation.plan, l.reservation.grant.Index, l.reservation.grant.Load)
		pl.Cluster.Shares.Count(pl.plugin.vm.Clock(), l.chosen)
		if pl.Cluster.Metrics.Needed() {
			pl.Metrics.Adapter = pl.Cluster.Engines.AddRequest(pl.Metrics.Model, l.chosen, l.tokens)
		}
	}
	pl.Metrics.WantReport(pl.Gateway, &pl.Traits, pl.Config)
}

// abandonReservation ends the wait for the store, or for lists of models: the request is over. Its lease, should the
// store grant it still, is released.
func (pl *choice) abandonReservation() {
	why := pl.lease.reservation.reason
	switch {
	case pl.phase == phaseListing:
		pl.enter(phaseUncounted)
	case pl.wait.isQueued():
		why = lb.ReasonLeftQueue
		pl.wait.countLeft()
	}
	pl.release()
	pl.decided(why)
}

// release ends the lease, if there is or may be one.
func (pl *choice) release() {
	if pl.phase == phaseLeased || pl.phase == phaseReserving {
		now := pl.lease.now()
		pl.closeLease()
		if id := pl.lease.reservation.id; id != 0 { // else it was not counted beyond its tenant
			pl.lease.store.Release(now, id)
		}
	}
}

// closeLease ends the phases in which the request is counted. What it was charged is given back unless it is settled.
func (pl *choice) closeLease() {
	pl.enter(phaseUncounted)
	pl.Body.Forget(&pl.Prompt.Work)
	pl.plugin.vm.waiters.remove(&pl.wait.waiter)
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
