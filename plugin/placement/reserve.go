package placement

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// This file is how a placement comes to its lease, and how it gives it back.

// timedEvery is how many reservations there are for each one whose duration is measured.
const timedEvery = 16

// reserve has the request counted at its tenant, before the store chooses an endpoint.
func (pl *Placement) reserve() Result {
	v, l := pl.Shared, &pl.Lease
	l.store, l.Redis = v.Stores.Of(pl.Config)
	now := l.Now()
	if pl.Config.Queue.Enabled() && !pl.Config.Shadow && !pl.Idle() && !pl.OnlyCached {
		now = v.ReadClock()
		if !pl.Trial {
			pl.Wait.usesQueue()
		}
		if why := pl.Wait.prepare(now); why != lb.ReasonChosen {
			pl.Enter(PhaseUncounted)
			return Result{Step: Refused, Why: why}
		}
	}
	if pl.Trial {
		return Result{Step: Planned, At: now}
	}
	pl.Enter(PhaseReserving)
	l.open(pl.Cluster)
	return pl.reserveTenant(now)
}

// ask has the store of the lease answer a reservation, under its id, with the plan. It reports whether it has at once;
// else finish runs when it does, unless the request is over then, or the reservation has another id. One answer of
// Redis, or the end of another request, may serve several requests: a panic in one of them must not keep the others
// from theirs.
func (pl *Placement) ask(now time.Duration, p *pending, plan *lb.Plan, name string, finish func() Result) bool {
	id := p.id
	p.done = false
	return p.during(func() {
		pl.Lease.store.Reserve(now, id, plan, func(g lb.Grant, err error) {
			if p.id != id {
				return
			}
			if p.answer(g, err); !p.inCallback && pl.Phase == PhaseReserving {
				pl.Shared.RunAs(pl.Context, name, func() { pl.driver.Answered(finish()) },
					pl.driver.GrantRecovered)
			}
		})
	})
}

// Submit gives the plan to the store.
func (pl *Placement) Submit(now time.Duration) Result {
	v, l := pl.Shared, &pl.Lease
	r := &l.Reservation
	r.id, r.startedAt = v.Stores.NextID(), 0
	if r.id%timedEvery == 1 {
		r.startedAt = v.GW.Now()
	}
	pl.Wait.reservedAs(l)
	if pl.ask(now, &r.pending, &r.Plan, "the answer to a reservation", pl.finishReservation) {
		return pl.finishReservation()
	}
	return Result{Step: Asked, At: now}
}

// Hold has the request wait for the answer of its store, which was asked at the given time.
func (pl *Placement) Hold(now time.Duration) Result {
	v, l := pl.Shared, &pl.Lease
	if l.Redis != nil {
		v.WakeAt(now, now+pl.Config.ReserveTimeout)
	}
	if pl.Wait.MayWait() {
		v.WakeAt(now, now+lb.PollPeriod)
		w := &pl.Wait
		if isFollowed(&pl.basis) && w.IsQueued() {
			pl.Cluster.Flights.Come(now, &l.flight)
		}
		// it may be granted what others have left
		if l.Reservation.during(func() { v.Waiters.Add(&w.Waiter, w.heldBytes(), w.queued) }) {
			return pl.finishReservation()
		}
	}
	return Result{Step: Waits}
}

// finishReservation goes on with a request whose store has answered.
func (pl *Placement) finishReservation() Result {
	v, l := pl.Shared, &pl.Lease
	r := &l.Reservation
	v.Waiters.Remove(&pl.Wait.Waiter)
	if r.startedAt > 0 && !r.Grant.Queued {
		v.Stats.Reserved(v.GW.Now() - r.startedAt)
	}
	pl.Wait.ended(&r.Grant, r.err)
	if r.err != nil {
		if lb.LacksRoom(r.err) {
			return Result{Step: NoRoom}
		}
		return pl.GiveUp()
	}
	addr := r.Plan.Candidates[r.Grant.Index].Addr
	gone := !pl.Config.Shadow && (l.isGone(addr, pl.Config, v.Views) || pl.isOutdated(r.view))
	if gone && !pl.OnlyCached && (r.Grant.Queued || pl.Config.WaitsFromZero()) {
		pl.undoGrant(addr)
		return pl.reserveAgain()
	}
	if !gone && pl.overflows(addr) {
		return pl.chooseAnother(addr)
	}
	return pl.leased(addr, gone)
}

// GiveUp ends a reservation that the store has not granted.
func (pl *Placement) GiveUp() Result {
	r := &pl.Lease.Reservation
	pl.closeLease()
	if pl.OnlyCached && lb.LacksRoom(r.err) {
		return Result{Step: Refused, Why: lb.ReasonNotCached}
	}
	if why := pl.Wait.refusalOf(r.err); why != lb.ReasonStoreError {
		return pl.refusedAsFull(why, r.Grant.Expected)
	}
	return Result{Step: Native, Why: lb.ReasonStoreError}
}

// refusedAsFull refuses a request for which there is no room: the cluster is overloaded, or has no endpoint. Others
// without a plan are left to the gateway.
func (pl *Placement) refusedAsFull(why lb.Reason, expected time.Duration) Result {
	if len(pl.Lease.Reservation.Plan.Candidates) == 0 && !pl.isAtZero() {
		return Result{Step: Native, Why: pl.noneHealthy()}
	}
	if !pl.Config.Shadow {
		pl.Cluster.Queue.RefusedAt = pl.Shared.Clock()
	}
	return Result{Step: Refused, Why: why, Expected: expected}
}

// leased counts a request at an endpoint, which may be gone by now.
func (pl *Placement) leased(addr string, gone bool) Result {
	l := &pl.Lease
	r := &l.Reservation
	pl.Enter(PhaseLeased)
	l.Load, l.Tokens = r.Grant.Load.Requests, r.Plan.AddedTokens(r.Grant.Cached)
	if pl.Prompt.Chain != nil && !pl.Prompt.Chain.Uncached {
		pl.Prompt.Chain.Cached = r.Plan.Prefix.Fraction(r.Grant.Cached)
	}
	l.Chosen, l.Addr = addr, addr
	l.charged(addr)
	if gone {
		pl.Release()
		return Result{Step: Native, Why: pl.noneHealthy()}
	}
	if pl.OnlyCached && pl.Prompt.Chain.Missing(r.Request.PromptTokens) >= float64(pl.Config.Prefix.IfAvailable) {
		l.forgetPrompt(r.Grant.Cached) // else the next one like it would find what was never computed
		pl.Release()
		return Result{Step: Refused, Why: lb.ReasonNotCached}
	}
	return Result{Step: Placed}
}

// AbandonReservation ends the wait for the store, or for lists of models: the request is over. Its lease, should the
// store grant it still, is released. It returns the reason to count.
func (pl *Placement) AbandonReservation() lb.Reason {
	why := pl.Lease.Reservation.Reason
	switch {
	case pl.Phase == PhaseListing:
		pl.Enter(PhaseUncounted)
	case pl.Wait.IsQueued():
		why = lb.ReasonLeftQueue
		pl.Wait.countLeft()
	}
	pl.Release()
	return why
}

// Release ends the lease, if there is or may be one.
func (pl *Placement) Release() {
	if pl.Phase == PhaseLeased || pl.Phase == PhaseReserving {
		now := pl.Lease.Now()
		pl.closeLease()
		if id := pl.Lease.Reservation.id; id != 0 { // else it was not counted beyond its tenant
			pl.Lease.store.Release(now, id)
		}
	}
}

// closeLease ends the phases in which the request is counted. What it was charged is given back unless it is settled.
func (pl *Placement) closeLease() {
	if l := &pl.Lease; l.flight != 0 { // at first: a look at the clock may fail
		pl.Cluster.Flights.Ended(l.GW.Now(), &l.flight)
	}
	pl.Enter(PhaseUncounted)
	pl.Body.Forget(&pl.Prompt.Work)
	pl.Shared.Waiters.Remove(&pl.Wait.Waiter)
	pl.Lease.giveBack(&pl.Lease.Budget.Target)
	pl.Lease.endTenant()
	pl.Lease.close()
}

// Others returns where retries of the request may be sent.
func (b *basis) Others() []string {
	r := &b.Lease.Reservation
	return others(&r.Plan, r.Grant.Index)
}

// others returns where retries may be sent: the candidates after the chosen one, so that not all are sent to the same,
// those of its tier first; those of its session in their order. Of ranks it is servers with the same one: retries name
// no other.
func others(p *lb.Plan, chosen int) []string {
	const maxOthers = 2
	order := p.Home.Order
	at := 1 + slices.Index(order, uint16(chosen)) // those in front of it were too busy
	out := make([]string, 0, maxOthers)
	rank, isRank := lb.RankOf(p.Candidates[chosen].Addr)
	add := func(addr string) {
		other, is := lb.RankOf(addr)
		if server := lb.ServerOf(addr); other == rank && is == isRank && !slices.Contains(out, server) {
			out = append(out, server)
		}
	}
	for _, part := range [2][]uint16{order[at:], order[:max(0, at-1)]} {
		for i := 0; i < len(part) && len(out) < maxOthers; i++ {
			add(p.Candidates[part[i]].Addr)
		}
	}
	for _, same := range [2]bool{true, false} {
		for i := 1; i < len(p.Candidates) && len(out) < maxOthers; i++ {
			// The plan's random bits were used up by the tie; rotating them by the index is enough here.
			at := (chosen + 1 + (i-1+int(p.Random>>33))%(len(p.Candidates)-1)) % len(p.Candidates)
			c := &p.Candidates[at]
			if (c.Tier == p.Candidates[chosen].Tier) == same {
				add(c.Addr)
			}
		}
	}
	return out
}
