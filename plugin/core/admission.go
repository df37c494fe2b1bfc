package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// This file is what the admission API and the core know of each other.

// admissionCore is what the API needs of the VM.
type admissionCore struct {
	vm *VM
	// tasks returns where the tasks of a configuration are counted.
	tasks func(c *config.Config) (tasks lb.TaskStore, remote bool)
}

// PlanTask implements admission.Core.
func (a *admissionCore) PlanTask(now time.Duration, c *config.Config, tokens int64) (lb.Plan, bool) {
	view := a.vm.views.of(now, budgetScope, c)
	if view == nil {
		return lb.Plan{}, false
	}
	cl, policy, err := a.vm.clusters.get(now, budgetScope, c)
	if err != nil {
		return lb.Plan{}, false
	}
	cl.views[view.ListID] = view
	plan, why := policy.Plan(now, &lb.Request{Random: a.vm.GW.Random(), PromptTokens: tokens}, view)
	plan.Tokens, plan.Budget.Tokens = tokens, tokens
	return plan, why == lb.ReasonChosen
}

// Tasks implements admission.Core.
func (a *admissionCore) Tasks(c *config.Config) (tasks lb.TaskStore, remote bool) { return a.tasks(c) }

// WakeAt implements admission.Core.
func (a *admissionCore) WakeAt(now, at time.Duration) { a.vm.ticks.wakeAt(now, at) }

// meetAPI takes in a request if it is one to the API, or to one of a configuration that is refused.
func (s *Stream) meetAPI(end bool) (_ host.Action, isCall bool) {
	set := s.plugin.set
	if !s.plugin.hasAPI() {
		return host.Proceed, false
	}
	s.traits.read(s)
	var cfg *config.Config
	var below string
	if set != nil {
		cfg, below = set.API(s.traits.path)
	}
	if cfg == nil && !s.plugin.isRefusedAPI(s.traits.path) {
		return host.Proceed, false
	}
	held := s.plugin.vm.bodies
	call := s.plugin.vm.api.NewCall(admission.Request{
		Stream: s.GatewayStream, Context: s.context, Length: s.traits.length, Awaits: s.traits.awaits,
		Value:   s.traits.value,
		Hold:    func(most time.Duration) { held.reading[s] = held.GW.Now() + most },
		Release: func() { delete(held.reading, s) },
	}, cfg)
	s.answer = call
	return call.Meet(below, end), true
}

// hasAPI reports whether there is an API, in force or refused.
func (p *Plugin) hasAPI() bool {
	return len(p.apis) > 0 || p.set != nil && (p.set.HasAPI() || len(p.set.RefusedAPIs()) > 0)
}

// isRefusedAPI reports whether the path of a request is one of an API whose configuration is refused.
func (p *Plugin) isRefusedAPI(path string) bool {
	return p.apis.Contain(path) || p.set != nil && p.set.RefusedAPIs().Contain(path)
}
