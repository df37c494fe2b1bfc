package core

import (
	"cmp"

	"github.com/warmgate/warmgate/lb"
)

// This file is how a placement comes to be served by another one than its store has chosen.

// leaveHome ends what a request that another region serves has to do with the endpoints at home.
func (pl *placement) leaveHome() {
	if w := &pl.wait; w.queued || pl.wait.isQueued() {
		w.queued, w.waited = true, pl.lease.now()-w.Since
	}
	if pl.phase == phaseReserving {
		pl.release()
		return
	}
	pl.enter(phaseUncounted)
}

// countAt counts the request at an endpoint that the gateway has chosen, full or not, with the prompt for which that is
// known.
func (pl *placement) countAt(addr string, prompt *lb.Prefix) {
	v, l := pl.shared, &pl.lease
	r := &l.reservation
	if l.store == nil { // it had no plan
		l.store, l.redis = v.stores.Of(pl.Config)
	}
	now := v.ReadClock()
	l.plannedAt = cmp.Or(l.plannedAt, now)
	r.plan = lb.Plan{
		Scope: pl.Scope, Unit: r.plan.Unit, Random: r.request.Random, Prefix: *prompt,
		List:   lb.NewList([]lb.Candidate{{Addr: addr, Weight: 1}}),
		Tokens: cmp.Or(r.plan.Tokens, r.request.PromptTokens+r.request.OutputTokens),
	}
	id := v.stores.NextID()
	r.id, l.addr, l.tokens, r.grant = id, addr, r.plan.AddedTokens(0), lb.Grant{}
	l.open(pl.Cluster)
	pl.enter(phaseLeased)
	l.store.Reserve(now, id, &r.plan, func(g lb.Grant, err error) {
		if err == nil && r.id == id && pl.phase == phaseLeased {
			r.grant, l.load, l.tokens = g, g.Load.Requests, r.plan.AddedTokens(g.Cached)
		}
	})
}
