package vm

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/views"
)

// PlanTask implements admission.Core.
func (v *VM) PlanTask(now time.Duration, c *config.Config, tokens int64) (lb.Plan, bool) {
	view := v.Views.Of(now, views.BudgetScope, c)
	if view == nil {
		return lb.Plan{}, false
	}
	cl, policy, err := v.Clusters.Get(now, views.BudgetScope, c)
	if err != nil {
		return lb.Plan{}, false
	}
	cl.Views[view.ListID] = view
	plan, why := policy.Plan(now, &lb.Request{Random: v.GW.Random(), PromptTokens: tokens}, view)
	plan.Tokens, plan.Budget.Tokens = tokens, tokens
	return plan, why == lb.ReasonChosen
}

// SetLimits implements admission.Core. While there are any, the cluster is there and is kept.
func (v *VM) SetLimits(now time.Duration, c *config.Config, list []lb.Override) {
	cl := v.Clusters[views.BudgetScope]
	if cl == nil && len(list) > 0 {
		cl, _, _ = v.Clusters.Get(now, views.BudgetScope, c)
	}
	if cl == nil {
		return
	}
	if len(list) > 0 {
		cl.UsedAt = now
	}
	cl.Overrides.Put(list)
}

// Tasks implements admission.Core.
func (v *VM) Tasks(c *config.Config) (tasks lb.TaskStore, remote bool) { return v.Stores.Tasks(c) }

// Parts implements inspect.Core and admission.Core.
func (v *VM) Parts() []*config.Config { return v.configs.allParts() }

// IsInspected implements inspect.Core.
func (v *VM) IsInspected() bool { return v.configs.isInspected() }
