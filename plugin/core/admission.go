package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/views"
)

// admissionCore is what the admission API needs of the VM.
type admissionCore struct {
	gw       host.Gateway
	views    *views.Views
	clusters clusters.Known
	wakeAt   func(now, at time.Duration) // has a tick come soon after that time
	// tasks returns where the tasks of a configuration are counted.
	tasks func(c *config.Config) (tasks lb.TaskStore, remote bool)
}

// PlanTask implements admission.Core.
func (a *admissionCore) PlanTask(now time.Duration, c *config.Config, tokens int64) (lb.Plan, bool) {
	view := a.views.Of(now, views.BudgetScope, c)
	if view == nil {
		return lb.Plan{}, false
	}
	cl, policy, err := a.clusters.Get(now, views.BudgetScope, c)
	if err != nil {
		return lb.Plan{}, false
	}
	cl.Views[view.ListID] = view
	plan, why := policy.Plan(now, &lb.Request{Random: a.gw.Random(), PromptTokens: tokens}, view)
	plan.Tokens, plan.Budget.Tokens = tokens, tokens
	return plan, why == lb.ReasonChosen
}

// Tasks implements admission.Core.
func (a *admissionCore) Tasks(c *config.Config) (tasks lb.TaskStore, remote bool) { return a.tasks(c) }

// WakeAt implements admission.Core.
func (a *admissionCore) WakeAt(now, at time.Duration) { a.wakeAt(now, at) }
