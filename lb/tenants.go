package lb

import (
	"strconv"
	"strings"

	"github.com/warmgate/warmgate/lb/budget"
)

// TenantBudget is what each tenant may use. The weight in Limits has no meaning.
type TenantBudget struct {
	Header        string // names the tenant; "" for no such budgets
	Limits        budget.Limits
	MaxConcurrent int
}

// TenantsScope begins the name of a scope in which tenants have budgets.
const TenantsScope = "tenants/"

// IsOfTenants reports whether tenants have budgets in the scope. There may be very many of them, and each plan is one
// of [TenantBudget.Plan]: so stores keep the budget of each apart, and the number of others does not matter.
func IsOfTenants(scope string) bool { return strings.HasPrefix(scope, TenantsScope) }

// Limited reports whether tenants have budgets.
func (t *TenantBudget) Limited() bool {
	return t.Header != "" && (t.Limits.Tokens > 0 || t.Limits.Requests > 0 || t.MaxConcurrent > 0)
}

// Plan returns the plan of a reservation in the budget of a tenant: it is the only candidate in the scope, by its
// digest. The scope is one of [IsOfTenants].
func (t *TenantBudget) Plan(scope string, digest uint64, tokens int64) *Plan {
	limits := t.Limits
	limits.Weight = 1
	return &Plan{
		Scope: scope, Tokens: tokens, Budget: Budget{Limits: []budget.Limits{limits}, Tokens: tokens},
		List: NewList([]Candidate{{
			Addr: strconv.FormatUint(digest, 16), Weight: 1, Slope: 1, Cap: int64(t.MaxConcurrent),
		}}),
	}
}
