package lb

import (
	"testing"

	"github.com/warmgate/warmgate/lb/budget"
)

// A tenant is the only candidate of its plan, in the scope of tenants, and what limits it is that of all tenants.
func TestTenantPlan(t *testing.T) {
	b := TenantBudget{Header: "x-tenant", Limits: budget.Limits{Tokens: 1000, Requests: 5}, MaxConcurrent: 3}
	plan := b.Plan("tenants/llm", 0xabc, 20)
	c := plan.Candidates[0]
	if !plan.HasBudget() || plan.Scope != "tenants/llm" || c.Addr != "abc" || c.Cap != 3 || plan.Budget.Tokens != 20 ||
		plan.Budget.Limits[0] != (budget.Limits{Weight: 1, Tokens: 1000, Requests: 5}) {
		t.Errorf("%+v", plan)
	}
	for _, b := range []TenantBudget{{}, {Header: "x-tenant"}, {MaxConcurrent: 3}} {
		if b.Limited() {
			t.Errorf("%+v limits tenants", b)
		}
	}
	if !b.Limited() {
		t.Errorf("%+v limits no tenants", b)
	}
}
