package placement

import (
	"github.com/warmgate/warmgate/lb/price"
	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Bill puts into m, which has the tokens of the request, whose they were and what they cost. Tokens of a model without
// a price cost nothing; they are counted, so that who has forgotten a price finds out.
func (s *Serving) Bill(m *measured.Request) {
	of := s.Of
	c := of.Config
	if name := c.TenantHeader(); name != "" {
		m.Tenant = of.Traits.Value(name)
	}
	if !c.Prices.Enabled() {
		return
	}
	rates := c.Prices.Table.Lookup(m.Model)
	if rates == nil {
		if s.Measures {
			of.Shared.Stats.Count(stats.Unpriced, uint64(m.Tokens.Prompt()+m.Tokens.Completion()))
		}
		return
	}
	m.Currency = c.Prices.Currency
	m.Cost = rates.Cost(priced(&m.Tokens))
}

// priced returns tokens as package price has them.
func priced(t *measured.Tokens) price.Tokens {
	return price.Tokens{Input: t.Input, Cached: t.Cached, Output: t.Output, Reasoning: t.Reasoning}
}
