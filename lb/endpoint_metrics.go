package lb

import "time"

// endpointMetrics is endpoint_metrics: the endpoint whose engine is likely to serve the request first, judged by its
// queue, KV cache and adapters, or the one with the lowest or highest value of one metric. Between two engine samples
// the store adds what has been reserved and released since, so that a stale sample does not attract a herd of requests.
type endpointMetrics struct {
	*leastRequest
	engines *Engines
	shares  *RequestShares
	cfg     *EngineConfig
}

func newEndpointMetrics(c Config) (Policy, error) {
	return &endpointMetrics{
		leastRequest: newLeastRequestIn(c, c.Unit), engines: c.Engines, shares: c.Shares,
		cfg: c.Engines.internConfig(&c.Engine),
	}, nil
}

// Plan makes every healthy endpoint a candidate at the cost derived from its engine sample, except those at their
// rate limit. An endpoint without a fresh sample gets the median cost; if no endpoint has one, the gateway decides.
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
