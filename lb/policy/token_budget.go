package policy

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/setting"
)

func init() {
	register(&Descriptor{
		Name: "token_budget", Rank: 6,
		Meaning: setting.Doc(
			"fair shares of targets that have rates in tokens or requests a minute, and none beyond its rate",
			"各目标有每分钟 token 数或请求数的限额，按权重公平分配，且都不超过限额",
		),
		Among:    EndpointsOrClusters,
		Needs:    Needs{Tokens: "charges tokens of prompts and answers", Budget: true},
		Settings: func() any { return new(BudgetConfig) },
		Keys:     slices.Concat(tokenBudgetKeys, weightKeys),
		Sections: []setting.Section{{
			Name:  "tenants",
			Title: setting.Doc("Budgets of tenants", "租户的预算"),
			Meaning: setting.Doc(
				"token_budget: what each tenant may use, whichever target serves it",
				"token_budget：每个租户可用多少，无论由哪个目标处理",
			),
		}, {
			Name:  "tenants.weights",
			Title: setting.Doc("Weights of tokens", "token 的权重"),
			Meaning: setting.Doc(
				"token_budget: how much tokens count in the budget of their tenant, by kind",
				"token_budget：各类 token 在其租户预算中计为多少",
			),
		}},
		Check: func(settings any, r setting.Report) { settings.(*BudgetConfig).check(r) },
		New:   newTokenBudget,
	})
}

// BudgetConfig is the settings of token_budget.
type BudgetConfig struct {
	Targets   []BudgetTarget // by name
	AgeBonus  float64        // see [lb.Budget.AgeBonus]
	MaxClosed time.Duration  // for how long a target is closed at most by its own word
	Tenants   lb.TenantBudget
	Weights   TenantWeights
}

// BudgetTarget is what an endpoint or a cluster may get.
type BudgetTarget struct {
	Name          string // of the cluster, or "ip:port"
	Limits        budget.Limits
	MaxConcurrent int // requests in flight, 0 for no cap
}

// Adjustable returns those of the target's limits that can be set at run time: in the order of [LimitKeys].
func (t *BudgetTarget) Adjustable() lb.TargetLimits {
	return lb.TargetLimits{float64(t.MaxConcurrent), t.Limits.Tokens, t.Limits.Requests}
}

// InForce returns the target with what was set at run time, and which of its limits that are.
func (t *BudgetTarget) InForce(o *lb.Overrides) (_ BudgetTarget, set [3]bool) {
	out := *t
	limits, set := o.Apply(t.Name, t.Adjustable())
	out.MaxConcurrent, out.Limits.Tokens, out.Limits.Requests = int(limits[0]), limits[1], limits[2]
	return out, set
}

// Entry implements [setting.EntryMap]: it adds a target.
func (c *BudgetConfig) Entry(name string) any {
	c.Targets = append(c.Targets, BudgetTarget{Name: name})
	return &c.Targets[len(c.Targets)-1]
}

// Names returns the names of the targets.
func (c *BudgetConfig) Names() []string {
	names := make([]string, len(c.Targets))
	for i := range c.Targets {
		names[i] = c.Targets[i].Name
	}
	return names
}

// Target returns the target with the name, nil if there is none.
func (c *BudgetConfig) Target(name string) *BudgetTarget {
	for i := range c.Targets {
		if c.Targets[i].Name == name {
			return &c.Targets[i]
		}
	}
	return nil
}

// check refuses settings without targets, and sorts these.
func (c *BudgetConfig) check(r setting.Report) {
	order.By(c.Targets, func(a, b *BudgetTarget) bool { return a.Name < b.Name })
	if !r.Written(keyTargets) {
		r.Problem(keyTargets, `missing, want what each may get, like {"gpt-4o-mini": {"weight": 3, `+
			`"max_tokens_per_minute": 200000}}`)
	}
	for _, key := range []string{keyTenantHeader, keyTenantTokens, keyTenantRequests, keyTenantInflight} {
		if r.Written(key) && !c.Tenants.Limited() {
			r.Warning(key, "has no effect: tenants have budgets with "+keyTenantHeader+" and a limit above 0")
		}
	}
	c.Weights.check(r, c.Tenants.Header != "" && c.Tenants.Limits.Tokens > 0)
}

// tokenBudget is token_budget: among the targets that have room for the request, the next one by weighted deficit round
// robin. The rule is that of package budget; stores apply it.
type tokenBudget struct {
	*leastRequest
	cfg     BudgetConfig
	over    *lb.Overrides
	lists   lb.DerivedLists // of the candidates that are targets
	latest  [2]uint64       // digest of the latest plan's list, and version of the limits
	budgets []budget.Limits // of that list
}

func newTokenBudget(c Config) (lb.Policy, error) {
	base := newLeastRequestIn(c, lb.Tokens)
	return &tokenBudget{leastRequest: base, cfg: *c.Settings.(*BudgetConfig), over: c.Overrides}, nil
}

// Plan makes the targets candidates that are healthy, and charges the request's estimated tokens to the one that gets
// it. Where no target is among the healthy endpoints, native balancing decides.
func (p *tokenBudget) Plan(now time.Duration, r *lb.Request, v *lb.View) (lb.Plan, lb.Reason) {
	plan, reason := p.basePlan(now, r, v)
	if reason != lb.ReasonChosen {
		return plan, reason
	}
	plan.List = p.lists.Get(now, plan.List, p.over.Version(), p.targets)
	if len(plan.Candidates) == 0 {
		return lb.Plan{}, lb.ReasonNoHealthyEndpoint
	}
	if r.Idle {
		plan, _ = p.planIdle(now, r, v, plan)
		return plan, lb.ReasonChosen
	}
	plan.Budget = lb.Budget{
		Limits: p.limitsOf(plan.List), Tokens: min(max(plan.Tokens, 1), lb.MaxTokens), AgeBonus: p.cfg.AgeBonus,
		MaxClosed: p.cfg.MaxClosed,
	}
	if p.limits != nil {
		plan.List = p.limits.Apply(now, plan.List, p.ahead)
	}
	return plan, lb.ReasonChosen
}

// targets returns the candidates that are targets, with their caps.
func (p *tokenBudget) targets(cs []lb.Candidate) (list []lb.Candidate) {
	for _, c := range cs {
		t := p.cfg.Target(c.Addr)
		if t == nil {
			continue
		}
		in, _ := t.InForce(p.over)
		if limit := int64(in.MaxConcurrent); limit > 0 && (c.Cap <= 0 || limit < c.Cap) {
			c.Cap = limit
		}
		list = append(list, c)
	}
	return list
}

// limitsOf returns the limits of targets.
func (p *tokenBudget) limitsOf(l lb.List) []budget.Limits {
	if of := [2]uint64{l.Digest(), p.over.Version()}; p.budgets == nil || p.latest != of {
		p.latest, p.budgets = of, make([]budget.Limits, len(l.Candidates))
		for i := range p.budgets {
			in, _ := p.cfg.Target(l.Candidates[i].Addr).InForce(p.over)
			p.budgets[i] = in.Limits
		}
	}
	return p.budgets
}
