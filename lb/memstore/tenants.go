package memstore

import (
	"strconv"

	"github.com/warmgate/warmgate/lb"
)

// Tenants (lb.IsOfTenants) are spread over several tables, which have fewer rows than others: a step reads and writes a
// whole table, and a client that makes up names should not make it expensive. All of them together have as many rows as
// another table.
const tenantTables, tenantRows = 8, maxRows / tenantTables

// tableName returns the name of the table that counts the endpoint: that of the scope, but for tenants.
func tableName(scope, addr string) string {
	if !lb.IsOfTenants(scope) {
		return scope
	}
	return scope + "/" + strconv.Itoa(int(lb.EndpointHash(addr)%tenantTables))
}

// tableFor returns the name of the table that counts the candidates of the plan. One without any waits where the others
// of its scope do.
func tableFor(p *lb.Plan) string {
	if len(p.Candidates) == 0 {
		return p.Scope
	}
	return tableName(p.Scope, p.Candidates[0].Addr)
}

// mostRows returns how many rows the table may have.
func (t table) mostRows() int {
	if lb.IsOfTenants(t.scope()) {
		return tenantRows
	}
	return maxRows
}
