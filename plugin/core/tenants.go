package core

import (
	"cmp"
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
)

// Where tenants have budgets (lb_config.tenants), a request is counted twice: at its tenant first, in a scope of its
// own, and then at a target. So who is over a budget is refused before anyone else could notice.

// tenantLease is where a request is counted at its tenant.
type tenantLease struct {
	charge     charge
	id         lb.LeaseID // 0 for none
	plan       *lb.Plan
	inCallback bool // the request's own callback waits for the answer
	done       bool // it has come
	grant      lb.Grant
	err        error
}

// reserveTenant counts the request at its tenant, if tenants have budgets, and then at a target.
func (s *Stream) reserveTenant(now time.Duration) Action {
	b := s.cfg.Budget()
	if b == nil || !b.Tenants.Limited() || s.cfg.Shadow || !s.computes() {
		return s.submit(now)
	}
	v, l, t := s.plugin.vm, &s.lease, &s.budget.tenant
	s.traits.read(s)
	id := v.stores.nextID()
	digest := tenantDigest(s.traits.value(b.Tenants.Header))
	t.plan = b.Tenants.Plan(lb.TenantsScope+s.scope, digest, l.reservation.plan.Budget.Tokens)
	t.id, t.inCallback = id, true
	l.store.Reserve(now, id, t.plan, func(g lb.Grant, err error) {
		if t.id == id {
			s.tenantGranted(g, err)
		}
	})
	if t.inCallback = false; t.done {
		return s.finishTenant()
	}
	v.ticks.wakeAt(now, now+s.cfg.ReserveTimeout)
	return Stop
}

// tenantDigest returns what stands for a tenant in stores.
func tenantDigest(name string) uint64 { return xxhash.Sum64String("tenant " + name) }

// tenantGranted is called by the store, within the request's own callback or from outside: see granted.
func (s *Stream) tenantGranted(g lb.Grant, err error) {
	t := &s.budget.tenant
	t.done, t.grant, t.err = true, g, err
	if t.inCallback || s.phase != phaseReserving {
		return
	}
	s.plugin.vm.runAs(s.context, "the answer to a tenant's reservation", func() {
		if s.finishTenant() == Proceed {
			s.Resume()
		}
	}, s.grantRecovered)
}

// finishTenant goes on with a request whose tenant has room for it. A store that cannot say does not stop it.
func (s *Stream) finishTenant() Action {
	t := &s.budget.tenant
	if t.err != nil {
		t.id = 0 // there is nothing to release
	}
	switch {
	case t.err == nil:
		t.charge = charge{t.id, t.plan.Scope, t.plan.Candidates[0].Addr, t.plan.Budget.Tokens}
	case errors.Is(t.err, lb.ErrOverBudget), errors.Is(t.err, lb.ErrFull):
		s.closeLease()
		return s.refuse(lb.ReasonTenantOverBudget, cmp.Or(t.grant.Expected, minWait))
	}
	return s.submit(s.lease.now())
}

// endTenant releases the request's lease at its tenant. What it was charged is given back unless it is settled.
func (s *Stream) endTenant() {
	t, l := &s.budget.tenant, &s.lease
	if t.id == 0 {
		return
	}
	id := t.id
	t.id = 0
	l.giveBack(&t.charge)
	l.store.Release(l.now(), id)
}
