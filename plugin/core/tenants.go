package core

import (
	"cmp"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// Where tenants have budgets (lb_config.tenants), a request is counted twice: at its tenant first, in a scope of its
// own, and then at a target. So who is over a budget is refused before anyone else could notice.

// tenantLease is where a request is counted at its tenant.
type tenantLease struct {
	claim
	charge charge
	plan   *lb.Plan
}

// reserveTenant counts the request at its tenant, if tenants have budgets, and then at a target.
func (ch *charging) reserveTenant(now time.Duration) host.Action {
	pl := ch.pl
	b := pl.cfg.Budget()
	if b == nil || !b.Tenants.Limited() || pl.cfg.Shadow || !pl.computes() {
		return pl.submit(now)
	}
	v, l, t := pl.plugin.vm, &pl.lease, &pl.lease.budget.tenant
	pl.traits.read(pl)
	digest := tenantDigest(pl.traits.value(b.Tenants.Header))
	t.plan = b.Tenants.Plan(lb.TenantsScope+pl.scope, digest, l.reservation.plan.Budget.Tokens)
	t.id = v.stores.nextID()
	if pl.ask(now, &t.claim, t.plan, "the answer to a tenant's reservation", ch.finishTenant) {
		return ch.finishTenant()
	}
	v.ticks.wakeAt(now, now+pl.cfg.ReserveTimeout)
	return host.Stop
}

// tenantDigest returns what stands for a tenant in stores.
func tenantDigest(name string) uint64 { return xxhash.Sum64String("tenant " + name) }

// finishTenant goes on with a request whose tenant has room for it. A store that cannot say does not stop it.
func (ch *charging) finishTenant() host.Action {
	pl := ch.pl
	t := &pl.lease.budget.tenant
	if t.err != nil {
		t.id = 0 // there is nothing to release
	}
	switch {
	case t.err == nil:
		t.charge = charge{t.id, t.plan.Scope, t.plan.Candidates[0].Addr, t.plan.Budget.Tokens}
	case errors.Is(t.err, lb.ErrOverBudget), errors.Is(t.err, lb.ErrFull):
		pl.closeLease()
		return pl.refusal.refuse(lb.ReasonTenantOverBudget, cmp.Or(t.grant.Expected, host.MinWait))
	}
	return pl.submit(pl.lease.now())
}

// endTenant releases the request's lease at its tenant. What it was charged is given back unless it is settled.
func (l *lease) endTenant() {
	t := &l.budget.tenant
	if t.id == 0 {
		return
	}
	id := t.id
	t.id = 0
	l.giveBack(&t.charge)
	l.store.Release(l.now(), id)
}
