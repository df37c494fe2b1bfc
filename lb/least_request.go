package lb

import "time"

// leastRequest is global_least_request: the endpoint with the least work in flight over all workers, per unit of
// weight. Higress's policy of the same name counts requests; here tokens are a unit too.
type leastRequest struct {
	unit   Unit
	terms  *Terms
	health *Health
}

func newLeastRequest(c Config) (Policy, error) {
	return newLeast(c.Unit, &c), nil
}

func newLeast(unit Unit, c *Config) *leastRequest {
	c.Terms.Unit = unit
	return &leastRequest{unit: unit, terms: c.Health.shared(&c.Terms), health: c.Health}
}

// Plan makes every healthy endpoint a candidate at a cost of its load.
func (p *leastRequest) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	cs, reason := p.health.Candidates(now, v, p.terms, r.Tie)
	if reason != ReasonChosen {
		return Plan{}, reason
	}
	return Plan{
		Scope: v.Cluster, Candidates: cs, Unit: p.unit,
		Tokens: r.PromptTokens + r.OutputTokens, Tie: r.Tie,
	}, ReasonChosen
}

// Observe passes the outcome to the cluster's health.
func (p *leastRequest) Observe(now time.Duration, o Outcome) { p.health.Observe(now, o, p.terms) }
