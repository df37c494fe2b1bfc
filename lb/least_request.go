package lb

import (
	"time"

	"github.com/warmgate/warmgate/lb/setting"
)

func init() {
	register(&Descriptor{
		Name: "global_least_request", Rank: 1,
		Meaning: setting.Words{
			EN: "least work in flight over all workers",
			ZH: "所有 worker 合计在途工作量最少者",
		},
		New: newLeastRequest,
	})
}

// leastRequest is global_least_request: the endpoint with the least work in flight over all workers, per unit of
// weight. Higress's policy of the same name counts requests; here tokens are a unit too.
type leastRequest struct {
	unit   Unit
	terms  *ClusterConfig
	health *Health
	lists  derived[preference]
	size   float64 // tokens of a request, moving average; 0 while nobody asks for it
}

func newLeastRequest(c Config) (Policy, error) { return newLeast(c, c.Unit), nil }

func newLeast(c Config, unit Unit) *leastRequest {
	c.Cluster.Unit = unit
	return &leastRequest{unit: unit, terms: c.Health.shared(&c.Cluster), health: c.Health}
}

// Plan makes every healthy endpoint a candidate at a cost of its load.
func (p *leastRequest) Plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	plan, reason := p.plan(now, r, v)
	if reason != ReasonChosen {
		return Plan{}, reason
	}
	p.place(&plan, v)
	return plan, ReasonChosen
}

// plan is Plan before it has been looked at where endpoints are.
func (p *leastRequest) plan(now time.Duration, r *Request, v *View) (Plan, Reason) {
	cs, reason := p.health.Candidates(now, v, p.terms, r.Tie)
	if reason != ReasonChosen {
		return Plan{}, reason
	}
	return Plan{
		Scope: v.Cluster, Candidates: cs, Unit: p.unit,
		Tokens: r.PromptTokens + r.OutputTokens, Tie: r.Tie,
	}, ReasonChosen
}

// place adds to the costs of candidates what it costs that they are in another tier than the request is meant for, or
// in another zone. It returns how many are in that tier.
func (p *leastRequest) place(plan *Plan, v *View) (size int) {
	tiers, tier := p.health.meant(v, p.terms, plan.Tie)
	zones := p.terms.ZonePenalty > 0 && v.Zone != Zone{}
	if len(tiers) > 1 || zones {
		to := preference{tier: tier}
		if zones {
			to.request = p.request(plan)
		}
		plan.Candidates = p.lists.of(plan.Candidates, to, to.prefer)
	}
	return tiers[tier].size
}

// request returns what a request like those of late adds to the load of an endpoint, in the plan's unit. It is rounded
// coarsely: every change of it makes a new list of candidates.
func (p *leastRequest) request(plan *Plan) float64 {
	if p.unit == Requests {
		return 1
	}
	const newest = 1.0 / 64
	added := plan.added()
	if p.size == 0 {
		p.size = added
	}
	p.size += (added - p.size) * newest
	return coarse(max(1, p.size), 1)
}

// Observe passes the outcome to the cluster's health.
func (p *leastRequest) Observe(now time.Duration, o Outcome) { p.health.Observe(now, o, p.terms) }
