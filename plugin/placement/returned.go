package placement

import (
	"cmp"

	"github.com/warmgate/warmgate/lb"
)

// This file is how a placement comes to be served by another one than its store has chosen, and is taken up again.

// LeaveHome ends what a request that another region serves has to do with the endpoints at home.
func (pl *Placement) LeaveHome() {
	if w := &pl.Wait; w.queued || w.IsQueued() {
		w.queued, w.waited = true, pl.Lease.Now()-w.Since
	}
	if pl.Phase == PhaseReserving {
		pl.Release()
		return
	}
	pl.Enter(PhaseUncounted)
}

// WaitedAs takes over how long another placement of the request has waited.
func (pl *Placement) WaitedAs(o *Placement) {
	w, of := &pl.Wait, &o.Wait
	w.Since, w.queued, w.waited = of.Since, of.queued, of.waited
	pl.Lease.GrantedAt = o.Lease.GrantedAt
}

// TakeUp reserves again for a request that has left for another placement, which had nothing for it: as of when it
// came, since it must not pass those that wait.
func (pl *Placement) TakeUp(from *Placement) Result {
	pl.Lease.GrantedAt, pl.Wait.queued = from.Lease.GrantedAt, pl.Wait.queued || from.Wait.queued
	if pl.Lease.store == nil { // it had no plan
		return pl.planAnew()
	}
	pl.Enter(PhaseReserving)
	pl.Lease.open(pl.Cluster)
	return pl.replan()
}

// countAt counts the request at an endpoint that the gateway has chosen, full or not.
func (pl *Placement) countAt(addr string, prompt *lb.Prefix) {
	v, l := pl.Shared, &pl.Lease
	r := &l.Reservation
	if l.store == nil { // it had no plan
		l.store, l.Redis = v.Stores.Of(pl.Config)
	}
	now := v.ReadClock()
	l.plannedAt = cmp.Or(l.plannedAt, now)
	r.Plan = lb.Plan{
		Scope: pl.Scope, Unit: r.Plan.Unit, Random: r.Request.Random, Prefix: *prompt,
		List:   lb.NewList([]lb.Candidate{{Addr: addr, Weight: 1}}),
		Tokens: cmp.Or(r.Plan.Tokens, r.Request.PromptTokens+r.Request.OutputTokens),
	}
	id := v.Stores.NextID()
	r.id, l.Addr, l.Tokens, r.Grant = id, addr, r.Plan.AddedTokens(0), lb.Grant{}
	l.open(pl.Cluster)
	pl.Enter(PhaseLeased)
	l.store.Reserve(now, id, &r.Plan, func(g lb.Grant, err error) {
		if err == nil && r.id == id && pl.Phase == PhaseLeased {
			r.Grant, l.Load, l.Tokens = g, g.Load.Requests, r.Plan.AddedTokens(g.Cached)
		}
	})
}

// CountIfListed counts a request that has left at the endpoint that serves it, if that is one of its cluster.
func (pl *Placement) CountIfListed(served string, prompt *lb.Prefix) bool {
	v, r := pl.Shared, &pl.Lease.Reservation
	view := v.GW.KnownView(v.Clock(), pl.Scope, pl.Config)
	if view == nil {
		view = r.view
	}
	if served == "" || !lists(view, served) {
		return false
	}
	r.view = view
	pl.countAt(served, prompt)
	return true
}
