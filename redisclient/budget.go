package redisclient

import (
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// limitsOf returns the budgets of a plan's candidates, nil if it has none.
func limitsOf(p *lb.Plan) []budget.Limits {
	if !p.HasBudget() {
		return nil
	}
	return p.Budget.Limits
}

// packBudgets returns the budgets of the candidates in the format of candidates.lua, nothing if there are none.
func packBudgets(cs []lb.Candidate, limits []budget.Limits) (out wire.Writer) {
	if limits == nil {
		return nil
	}
	for i := range limits {
		out = appendLimits(out, &limits[i], &cs[i])
	}
	for i := range cs {
		out = append(append(out, cs[i].Addr...), '\n')
	}
	return out
}

// appendLimits appends the limits and caps of one candidate.
func appendLimits(out wire.Writer, l *budget.Limits, c *lb.Candidate) wire.Writer {
	return out.Float64(l.Weight).Float64(max(l.Tokens, 0)).Float64(max(l.Requests, 0)).
		Float64(requestCap(c)).Float64(tokenCap(c))
}

// requestCap and tokenCap return the caps of a candidate, 0 for none.
func requestCap(c *lb.Candidate) float64 { return float64(max(c.Cap, 0)) }

func tokenCap(c *lb.Candidate) float64 { return float64(min(max(c.TokenCap, 0), maxRowTokens)) }

// unpackLeft reads what is left of a budget.
func unpackLeft(in *wire.Reader[[]byte]) budget.Left {
	return budget.Left{Tokens: in.Float64(), Requests: in.Float64()}
}
