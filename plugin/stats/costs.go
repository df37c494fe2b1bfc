package stats

import (
	"strings"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/internal/topnames"
	"github.com/warmgate/warmgate/plugin/measured"
)

// maxPayers is how many pairs of a model and a tenant have a counter of what they cost. The others are counted with the
// model alone.
const maxPayers = 1024

// payer is who pays for requests to a model, and in what.
type payer struct{ model, tenant, currency string }

// cost is what a payer has paid.
type cost struct {
	counter
	payer
}

func (c *cost) name() string {
	return statname.With(Cost, "model", c.model, "tenant", c.tenant, "currency", c.currency)
}

// payer returns what the cost of a request is added to. The model is a label.
func (r *requests) payer(model string, m *measured.Request) *cost {
	key := payer{model, m.Tenant, m.Currency}
	if found := r.costs[key]; found != nil {
		return found
	}
	if m.Tenant != "" && !r.tenants.Use(m.Tenant, answered(m)) {
		r.folded[foldedTenant].n++
		key.tenant = topnames.Other
	} else if len(r.costs) >= maxPayers {
		r.folded[foldedCombination].n++
		key.tenant = topnames.Other
	}
	found := r.costs[key]
	if found == nil {
		key = payer{strings.Clone(model), strings.Clone(key.tenant), strings.Clone(m.Currency)}
		found = &cost{payer: key}
		r.costs[key] = found
	}
	return found
}
