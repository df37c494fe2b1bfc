package stats

import (
	"math"
	"strings"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/internal/topnames"
	"github.com/warmgate/warmgate/plugin/measured"
)

const (
	// There may be more tenants than models, but each has one counter for each of its models.
	firstTenants, moreTenants = 64, 64
	// maxPayers is how many pairs of a model and a tenant have a counter. The others are counted with the model alone.
	maxPayers = 1024
)

// costs are what requests have cost, by who pays.
type costs struct {
	tenants *topnames.Names
	payers  map[payer]*counter
	// unpriced are tokens of models without a price, by their labels.
	unpriced map[string]*counter
}

// payer is who pays for requests to a model, and in what.
type payer struct{ model, tenant, currency string }

func newCosts() *costs {
	return &costs{
		tenants: topnames.New(firstTenants, moreTenants), payers: map[payer]*counter{}, unpriced: map[string]*counter{},
	}
}

// count adds the cost of a request to a model, by its label. It returns false if the tenant is not told apart.
func (c *costs) count(model string, m *measured.Request, answered bool) bool {
	if m.Unpriced {
		c.countUnpriced(model, m.Tokens.Prompt()+m.Tokens.Completion())
	}
	if m.Cost <= 0 || m.Currency == "" {
		return true
	}
	key, whole := payer{model, m.Tenant, m.Currency}, true
	of := c.payers[key]
	if of == nil {
		if m.Tenant != "" {
			whole = c.tenants.Use(m.Tenant, answered) && len(c.payers) < maxPayers
		}
		if !whole {
			key.tenant = topnames.Other
		}
		of = c.of(key)
	}
	of.n += min(m.Cost, math.MaxInt64-of.n)
	return whole
}

func (c *costs) countUnpriced(model string, tokens int64) {
	of := c.unpriced[model]
	if of == nil {
		of = &counter{}
		c.unpriced[strings.Clone(model)] = of
	}
	of.n += tokens
}

// of returns the counter of a payer, by labels.
func (c *costs) of(key payer) *counter {
	of := c.payers[key]
	if of == nil {
		// The texts may be parts of large ones.
		key = payer{strings.Clone(key.model), strings.Clone(key.tenant), strings.Clone(key.currency)}
		of = &counter{}
		c.payers[key] = of
	}
	return of
}

// flush gives the gateway what was counted.
func (c *costs) flush(m Metrics) {
	for model, of := range c.unpriced {
		of.flush(m, func() string { return statname.With(Unpriced, "model", model) })
	}
	for p, of := range c.payers {
		of.flush(m, func() string {
			return statname.With(Cost, "model", p.model, "tenant", p.tenant, "currency", p.currency)
		})
	}
}
