package placement

import (
	"cmp"

	"github.com/warmgate/warmgate/plugin/measured"
)

// Bill puts into m, which has the tokens of the request, whose they were and what they cost. Tokens of a model without
// a price cost nothing; that is noted, so that who has forgotten a price finds out.
func Bill(of *Placement, m *measured.Request) {
	c := of.Config
	if !c.Prices.Enabled() {
		return
	}
	if name := c.Prices.Header; name != "" {
		m.Tenant = of.Traits.Value(name)
	}
	rates := c.Prices.Table.Lookup(cmp.Or(m.Model, m.Asked))
	if m.Unpriced = rates == nil; m.Unpriced {
		return
	}
	m.Currency = c.Prices.Currency
	m.Cost = rates.Cost(m.Tokens)
}
