package core

import (
	"cmp"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/host"
)

// reserveTenant counts the request at its tenant, if tenants have budgets, before it is at a target.
func (pl *placement) reserveTenant(now time.Duration) result {
	b := pl.Config.Budget()
	if b == nil || !b.Tenants.Limited() || pl.Config.Shadow || !pl.Computes() {
		return result{step: stepReady, at: now}
	}
	v, l, t := pl.shared, &pl.lease, &pl.lease.budget.tenant
	pl.Traits.Read(pl.Gateway)
	digest := tenantDigest(pl.Traits.Value(b.Tenants.Header))
	t.plan = b.Tenants.Plan(lb.TenantsScope+pl.Scope, digest, l.reservation.plan.Budget.Tokens)
	t.id = v.stores.NextID()
	if pl.ask(now, &t.claim, t.plan, "the answer to a tenant's reservation", pl.finishTenant) {
		return pl.finishTenant()
	}
	v.wakeAt(now, now+pl.Config.ReserveTimeout)
	return result{step: stepWaits}
}

// tenantDigest returns what stands for a tenant in stores.
func tenantDigest(name string) uint64 { return xxhash.Sum64String("tenant " + name) }

// finishTenant goes on with a request whose tenant has room for it. A store that cannot say does not stop it.
func (pl *placement) finishTenant() result {
	t := &pl.lease.budget.tenant
	if t.err != nil {
		t.id = 0 // there is nothing to release
	}
	switch {
	case t.err == nil:
		t.charge = charge{t.id, t.plan.Scope, t.plan.Candidates[0].Addr, t.plan.Budget.Tokens}
	case errors.Is(t.err, lb.ErrOverBudget), errors.Is(t.err, lb.ErrFull):
		pl.closeLease()
		return result{
			step: stepRefused, why: lb.ReasonTenantOverBudget, expected: cmp.Or(t.grant.Expected, host.MinWait),
		}
	}
	return result{step: stepReady, at: pl.lease.now()}
}
