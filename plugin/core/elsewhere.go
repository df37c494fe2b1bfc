package core

import (
	"cmp"

	"github.com/warmgate/warmgate/lb"
)

// This file is how a placement comes to be served by another one than its store has chosen, and is taken up again.

// leaveHome ends what a request that another region serves has to do with the endpoints at home.
func (pl *placement) leaveHome() {
	if w := &pl.wait; w.queued || w.isQueued() {
		w.queued, w.waited = true, pl.lease.now()-w.Since
	}
	if pl.phase == phaseReserving {
		pl.release()
		return
	}
	pl.enter(phaseUncounted)
}

// waitedAs takes over how long another placement of the request has waited.
func (pl *placement) waitedAs(o *placement) {
	w, of := &pl.wait, &o.wait
	w.Since, w.queued, w.waited = of.Since, of.queued, of.waited
	pl.lease.grantedAt = o.lease.grantedAt
}

// takeUp reserves again for a request that has left for another placement, which had nothing for it: as of when it
// came, since it must not pass those that wait.
func (pl *placement) takeUp(from *placement) result {
	pl.lease.grantedAt, pl.wait.queued = from.lease.grantedAt, pl.wait.queued || from.wait.queued
	if pl.lease.store == nil { // it had no plan
		return pl.planAnew()
	}
	pl.enter(phaseReserving)
	pl.lease.open(pl.Cluster)
	return pl.replan()
}

// countAt counts the request at an endpoint that the gateway has chosen, full or not.
func (pl *placement) countAt(addr string, prompt *lb.Prefix) {
	v, l := pl.shared, &pl.lease
	r := &l.reservation
	if l.store == nil { // it had no plan
		l.store, l.redis = v.Stores.Of(pl.Config)
	}
	now := v.ReadClock()
	l.plannedAt = cmp.Or(l.plannedAt, now)
	r.plan = lb.Plan{
		Scope: pl.Scope, Unit: r.plan.Unit, Random: r.request.Random, Prefix: *prompt,
		List:   lb.NewList([]lb.Candidate{{Addr: addr, Weight: 1}}),
		Tokens: cmp.Or(r.plan.Tokens, r.request.PromptTokens+r.request.OutputTokens),
	}
	id := v.Stores.NextID()
	r.id, l.addr, l.tokens, r.grant = id, addr, r.plan.AddedTokens(0), lb.Grant{}
	l.open(pl.Cluster)
	pl.enter(phaseLeased)
	l.store.Reserve(now, id, &r.plan, func(g lb.Grant, err error) {
		if err == nil && r.id == id && pl.phase == phaseLeased {
			r.grant, l.load, l.tokens = g, g.Load.Requests, r.plan.AddedTokens(g.Cached)
		}
	})
}

// countIfListed counts a request that has left at the endpoint that serves it, if that is one of its cluster.
func (pl *placement) countIfListed(served string, prompt *lb.Prefix) bool {
	v, r := pl.shared, &pl.lease.reservation
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
