package placement

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

// reserveTenant counts the request at its tenant, if tenants have budgets, before it is at a target.
func (pl *Placement) reserveTenant(now time.Duration) Result {
	v, t := pl.Shared, &pl.Lease.Budget.tenant
	if t.plan = pl.charge.tenantPlan(); t.plan == nil {
		return Result{Step: Ready, At: now}
	}
	t.id = v.Stores.NextID()
	if pl.ask(now, &t.pending, t.plan, "the answer to a tenant's reservation", pl.finishTenant) {
		return pl.finishTenant()
	}
	v.WakeAt(now, now+pl.Config.ReserveTimeout)
	return Result{Step: Waits}
}

// tenantPlan returns how the request is counted at its tenant, nil if tenants have no budgets.
func (ch *charging) tenantPlan() *lb.Plan {
	of := ch.of
	b := of.Config.Budget()
	if b == nil || !b.Tenants.Limited() || of.Config.Shadow || !of.Computes() {
		return nil
	}
	of.Traits.Read(of.Gateway)
	digest, r := tenantDigest(of.Traits.Value(b.Tenants.Header)), &of.Lease.Reservation.Request
	tokens := ch.ofTenant(of.Prompt.Work.Expected(r.PromptTokens, r.OutputTokens))
	return b.Tenants.Plan(lb.TenantsScope+of.Scope, digest, max(tokens, 1))
}

// tenantDigest returns what stands for a tenant in stores.
func tenantDigest(name string) uint64 { return xxhash.Sum64String("tenant " + name) }

// finishTenant goes on with a request whose tenant has room for it. A store that cannot say does not stop it.
func (pl *Placement) finishTenant() Result {
	t := &pl.Lease.Budget.tenant
	if t.err != nil {
		t.id = 0 // there is nothing to release
	}
	switch {
	case t.err == nil:
		t.charge = charge{t.id, t.plan.Scope, t.plan.Candidates[0].Addr, t.plan.Budget.Tokens}
	case errors.Is(t.err, lb.ErrOverBudget), errors.Is(t.err, lb.ErrFull):
		pl.closeLease()
		return Result{
			Step: Refused, Why: lb.ReasonTenantOverBudget, Expected: cmp.Or(t.Grant.Expected, host.MinWait),
		}
	}
	return Result{Step: Ready, At: pl.Lease.Now()}
}
