package lb

import "time"

// leastRequest is global_least_request: the endpoint with the least work in flight over all workers, per unit of
// weight. Higress's policy of the same name counts requests; here tokens are a unit too.
type leastRequest struct {
	unit       Unit
	cluster    *ClusterConfig
	health     *Health
	derived    derivedLists[tierCosts]
	meanTokens float64 // tokens of a request, moving average; 0 while nobody asks for it
}

func newLeastRequest(c Config) (Policy, error) { return newLeastRequestIn(c, c.Unit), nil }

func newLeastRequestIn(c Config, unit Unit) *leastRequest {
	c.Cluster.Unit = unit
	return &leastRequest{unit: unit, cluster: c.Health.internConfig(&c.Cluster), health: c.Health}
}

// Plan makes every healthy endpoint a candidate at a cost of its load.
func (p *leastRequest) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.basePlan(now, r, v)
	if reason != ReasonChosen {
		return Plan{}, reason
	}
	p.addTierCosts(&plan, v)
	return plan, ReasonChosen
}

// basePlan is Plan before it has been looked at where endpoints are.
func (p *leastRequest) basePlan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	cs, reason := p.health.Candidates(now, v, p.cluster, r.Random)
	if reason != ReasonChosen {
		return Plan{}, reason
	}
	return Plan{
		Scope: v.Cluster, Candidates: cs, Unit: p.unit,
		Tokens: r.PromptTokens + r.OutputTokens, Random: r.Random,
	}, ReasonChosen
}

// addTierCosts adds to the costs of candidates what it costs that they are in another tier than the request is meant for, or
// in another zone. It returns how many are in that tier.
func (p *leastRequest) addTierCosts(plan *Plan, v *View) (size int) {
	tiers, tier := p.health.requestTier(v, p.cluster, plan.Random)
	zones := p.cluster.ZonePenalty > 0 && v.Zone != Zone{}
	if len(tiers) > 1 || zones {
		to := tierCosts{tier: tier}
		if zones {
			to.requestLoad = p.requestLoad(plan)
		}
		plan.Candidates = p.derived.get(plan.Candidates, to, to.apply)
	}
	return tiers[tier].size
}

// requestLoad returns what a request like those of late adds to the load of an endpoint, in the plan's unit. It is rounded
// coarsely: every change of it makes a new list of candidates.
func (p *leastRequest) requestLoad(plan *Plan) float64 {
	if p.unit == Requests {
		return 1
	}
	const newest = 1.0 / 64
	added := plan.added()
	if p.meanTokens == 0 {
		p.meanTokens = added
	}
	p.meanTokens += (added - p.meanTokens) * newest
	return roundDigits(max(1, p.meanTokens), 1)
}

// Observe passes the outcome to the cluster's health.
func (p *leastRequest) Observe(now time.Duration, o Outcome) { p.health.Observe(now, o, p.cluster) }
