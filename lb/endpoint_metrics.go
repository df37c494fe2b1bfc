package lb

import "time"

// endpointMetrics is endpoint_metrics: the endpoint whose engine is likely to serve the request soonest by what engines
// say of their queues, KV caches and adapters, or the one with the least or the most of one metric. What was reserved
// and released since they spoke is the store's to know, at the moment of the reservation, so that no herd follows the
// numbers of a moment ago.
type endpointMetrics struct {
	*leastRequest
	engines *Engines
	shares  *RequestShares
	cfg     *EngineConfig
}

func newEndpointMetrics(c Config) (Policy, error) {
	return &endpointMetrics{
		leastRequest: newLeastRequestIn(c, c.Unit), engines: c.Engines, shares: c.Shares, cfg: c.Engines.internConfig(&c.Engine),
	}, nil
}

// Plan makes every healthy endpoint a candidate at the cost that its engine gives it, except those that have had their
// share. An endpoint that says nothing gets the mean cost; if none says anything, the gateway decides.
func (p *endpointMetrics) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.basePlan(now, r, v)
	if reason != ReasonChosen {
		return plan, reason
	}
	cs, fresh := p.engines.applyCosts(now, plan.Candidates, p.cfg, p.unit, r.Model, p.cluster.hasWeights(v))
	if fresh == 0 {
		return Plan{}, ReasonNoMetrics
	}
	plan.Candidates = p.shares.within(now, p.cfg.RateLimit, cs)
	p.addTierCosts(&plan, v)
	return plan, ReasonChosen
}
