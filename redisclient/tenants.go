package redisclient

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// Budgets of tenants: lua/tenant.lua. A scope of tenants has very many targets, so a reservation brings the limits of
// the one that it names: a list of candidates for each would be sent with nearly every request.

// tenantKeys and tenantArgs are how many keys and arguments a reservation at a tenant has.
const tenantKeys, tenantArgs = 5, 5

// isForTenant reports whether the plan is for the budget of a tenant.
func (at *place) isForTenant(p *lb.Plan) bool {
	return at.ofTenants && p.HasBudget() && len(p.Candidates) == 1 && !p.Wait.Waits()
}

// setTenantCommand sets the command of a reservation at the budget of a tenant.
func (co *composer) setTenantCommand(r *reservation, p *lb.Plan) {
	r.script, r.args = scriptSpendTenant, tenantArgs
	c, l := &p.Candidates[0], &p.Budget.Limits[0]
	b := r.script.command(make([]byte, 0, 384), tenantKeys, tenantArgs)
	keys := &co.at.keys
	for _, key := range []string{keys.Table, keys.Rows, keys.Owners, keys.Leases, keys.Tenants} {
		b = appendArg(b, key)
	}
	b = appendArg(appendID(appendArg(b, c.Addr), r.id), co.at.owner.name)
	b = appendInt(b, dataTTL.Milliseconds())
	var room [48]byte
	params := wire.Writer(room[:0]).Float64(float64(p.AddedTokens(0)))
	r.cmd = appendArg(b, appendLimits(params, l, c))
}

// appendBudgetKey appends the key that has the budgets of the scope.
func (at *place) appendBudgetKey(b []byte) []byte {
	if at.ofTenants {
		return appendArg(b, at.keys.Tenants)
	}
	return appendArg(b, at.keys.Budget)
}
