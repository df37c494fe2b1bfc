package policy

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
	"github.com/warmgate/warmgate/lb/models"
	"github.com/warmgate/warmgate/lb/push"
	"github.com/warmgate/warmgate/lb/setting"
)

func init() {
	register(&Descriptor{
		Name: "global_least_request", Rank: 1,
		Meaning: setting.Doc(
			"least work in flight over all workers",
			"所有 worker 合计在途工作量最少者",
		),
		Among: EndpointsOrClusters,
		New:   newLeastRequest,
	})
}

// leastRequest is global_least_request: the endpoint with the lowest load in flight over all workers, per unit of
// weight. Higress's policy of the same name counts requests; this one can count tokens too.
type leastRequest struct {
	unit       lb.Unit
	cluster    *health.ClusterConfig
	health     *health.Health
	facts      *models.Facts   // nil for none
	limits     *push.Limits    // nil for none
	ahead      int             // see [Config].PushAhead
	subsets    lb.DerivedLists // by [lb.Request.Subset]
	derived    lb.DerivedLists // by tierCosts.key, or uncapped
	affinity   affinity
	meanTokens float64 // load of a request in tokens, moving average; 0 before it is first needed
}

func newLeastRequest(c Config) (lb.Policy, error) { return newLeastRequestIn(c, c.Unit), nil }

// newLeastRequestIn returns the policy with load in the given unit, whatever unit is configured.
func newLeastRequestIn(c Config, unit lb.Unit) *leastRequest {
	c.Cluster.Unit = unit
	p := &leastRequest{unit: unit, cluster: c.Health.OneConfig(&c.Cluster), health: c.Health, facts: c.Facts}
	if c.Push == push.Pending && c.Limits != nil {
		p.limits, p.ahead = c.Limits, c.PushAhead
		c.Limits.Configure(c.Engine.StaleAfter, c.PushAhead)
	}
	if c.Facts != nil {
		p.affinity.weight = c.Affinity
	}
	return p
}

// Plan makes every healthy endpoint a candidate; its cost is its load.
func (p *leastRequest) Plan(now time.Duration, r *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	plan, reason := p.basePlan(now, r, v)
	if reason != lb.ReasonChosen {
		return lb.Plan{}, reason
	}
	if r.Idle {
		plan, _ = p.planIdle(now, r, v, plan)
		return plan, lb.ReasonChosen
	}
	p.finish(now, r, &plan, v)
	return plan, lb.ReasonChosen
}

// basePlan returns the plan without what finish adds.
func (p *leastRequest) basePlan(now time.Duration, r *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	list, reason := p.health.Candidates(now, v, p.cluster, r.Random)
	if reason != lb.ReasonChosen {
		return lb.Plan{}, reason
	}
	if list = p.within(now, r, list); len(list.Candidates) == 0 {
		return lb.Plan{}, lb.ReasonNoHealthyEndpoint
	}
	plan := lb.Plan{
		Scope: v.Cluster, List: p.facts.Filter(now, r, list), Unit: p.unit,
		Tokens: r.PromptTokens + r.OutputTokens, Random: r.Random,
	}
	if r.Idle {
		plan.Unit, plan.Tokens = lb.Requests, 0
	}
	return plan, lb.ReasonChosen
}

// uncapped is what candidates without caps are derived with. No tierCosts have that key.
const uncapped = math.MaxUint64

// planIdle returns the plan of a request that computes nothing: by requests in flight, of which it is one. Full engines
// do not keep it waiting, so there are no caps. It also returns the request's tier.
func (p *leastRequest) planIdle(
	now time.Duration, r *lb.Request, v *lb.View, plan lb.Plan,
) (idle lb.Plan, tier uint8) {
	plan.List = p.derived.Get(now, plan.List, uncapped, func(cs []lb.Candidate) []lb.Candidate {
		out := slices.Clone(cs)
		for i := range out {
			out[i].Cap, out[i].TokenCap = 0, 0
		}
		return out
	})
	tier, _ = p.addTierCosts(now, r, &plan, v)
	return plan, tier
}

// finish adds the costs of tiers and zones, and push limits. Those come last, because they change most often, and lists
// that depend on lists with them would change too. It returns the request's tier and the number of candidates in it.
func (p *leastRequest) finish(
	now time.Duration, r *lb.Request, plan *lb.Plan, v *lb.View,
) (tier uint8, size int) {
	tier, size = p.addTierCosts(now, r, plan, v)
	if p.limits != nil {
		plan.List = p.limits.Apply(now, plan.List, p.ahead)
	}
	return tier, size
}

// addTierCosts adds the costs of candidates in another tier than the request's, in another zone than the gateway's, and
// where its model rather is not. It returns the request's tier and the number of candidates in it.
func (p *leastRequest) addTierCosts(
	now time.Duration, r *lb.Request, plan *lb.Plan, v *lb.View,
) (tier uint8, size int) {
	tier, size, tiers := p.health.RequestTier(now, v, p.cluster, plan.Random)
	zones := p.cluster.ZonePenalty > 0 && v.Zone != lb.Zone{}
	near := p.affinity.weight > 0 && r.ModelName != 0 && !r.Idle
	load := 0.0
	if zones || near {
		load = p.requestLoad(plan, r.Trial)
	}
	if tiers > 1 || zones {
		costs := tierCosts{tier: tier}
		if zones {
			costs.requestLoad = load
		}
		plan.List = p.derived.Get(now, plan.List, costs.key(), costs.apply)
	}
	if near {
		plan.List = p.near(now, r.ModelName, plan.List, tier, size, v, load)
	}
	return tier, size
}

// requestLoad returns the load of a typical request, in the plan's unit. It is rounded coarsely, because every change
// of it makes a new list of candidates. A trial changes it for itself alone.
func (p *leastRequest) requestLoad(plan *lb.Plan, trial bool) float64 {
	if plan.Unit == lb.Requests {
		return 1
	}
	const gain = 1.0 / 64 // weight of the newest request
	added, mean := plan.Added(), p.meanTokens
	if mean == 0 {
		mean = added
	}
	mean += (added - mean) * gain
	if !trial {
		p.meanTokens = mean
	}
	return lb.RoundDigits(max(1, mean), 1)
}

// Observe passes the outcome to the cluster's health.
func (p *leastRequest) Observe(now time.Duration, o lb.Outcome) { p.health.Observe(now, o, p.cluster) }
