package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
)

// placement is one choice from plan to outcome: plan, reservation, lease, outcome. Its steps return what has come of
// them; what that means for the request is its driver's business.
type placement struct {
	basis
	driver driver
	wait   waiting  // in the queue of the cluster
	charge charging // what it is charged
	judge  judging  // what its end means for who has served it
}

// begin plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (pl *placement) begin(size int, ended bool, reason lb.Reason) result {
	v := pl.plugin.vm
	now := v.Clock()
	view := v.views.Of(now, pl.scope, pl.cfg)
	if view == nil {
		return result{step: stepLeft, why: lb.ReasonNoEndpoints}
	}
	if !pl.cfg.AmongClusters() && v.GW.HasSubsets(pl.scope, pl.cfg) {
		return result{step: stepLeft, why: lb.ReasonSubset}
	}
	if pl.cfg.AmongClusters() && !pl.needsOwnBody() {
		reason = lb.ReasonChosen
	}
	var err error
	switch pl.cluster, pl.policy, err = v.clusters.Get(now, pl.scope, pl.cfg); {
	case errors.Is(err, clusters.ErrTooMany):
		return result{step: stepLeft, why: lb.ReasonStoreError}
	case err != nil:
		return result{step: stepLeft, why: lb.ReasonConfigInvalid}
	}
	pl.cluster.Views[view.ListID] = view
	pl.response.cluster = pl.cluster
	pl.metrics.request.Context = pl.context
	v.scraping.NeededBy(&pl.metrics.request, pl.cluster.Metrics, pl.cfg)
	v.lists.NeededBy(pl.cluster.Metrics, pl.cfg)
	r := lb.Request{
		Random: v.GW.Random(), Model: pl.metrics.model, Session: pl.session.key, Idle: pl.idle(),
	}
	switch {
	case !pl.computes():
	case pl.cfg.Unit == lb.Tokens:
		pl.prompt.estimateWork(&r, size, ended)
	case pl.cluster.Tokens:
		pl.prompt.assumeTypical(&r)
	}
	pl.facts.put(&r, size)
	pl.lease.reservation = reservation{request: r, reason: reason}
	if pl.awaitsLists() {
		pl.enter(phaseListing)
		return result{step: stepWaits}
	}
	return pl.place(view)
}

// place plans and reserves for a request of which all is known that will be.
func (pl *placement) place(view *lb.View) result {
	now := pl.plugin.vm.Clock()
	if why := pl.makePlan(now, view); why != lb.ReasonChosen {
		if why == lb.ReasonNoMetrics {
			pl.metrics.requestReport(pl.gateway, &pl.traits, pl.cfg)
		}
		return result{step: stepNoPlan, why: why}
	}
	pl.prompt.work.output = pl.lease.reservation.request.OutputTokens
	return pl.reserve()
}

// makePlan has the policy plan the request. It returns ReasonChosen, or why there is no plan.
func (pl *placement) makePlan(now time.Duration, view *lb.View) lb.Reason {
	r := &pl.lease.reservation
	r.view = view
	plan, why := pl.policy.Plan(now, &r.request, view)
	if why == lb.ReasonNoHealthyEndpoint {
		why = pl.noneHealthy()
	}
	if why != lb.ReasonChosen {
		return why
	}
	if pl.prompt.work.open && pl.prompt.work.seen == 0 {
		plan.Tokens = openTokens
	}
	if !pl.computes() {
		plan.Budget, plan.Unit = lb.Budget{}, lb.Requests // tokens say nothing of it
	}
	if pl.prompt.chain != nil {
		pl.cluster.Prompts.View = view
	}
	pl.held.plan(now, pl.plugin.vm.stores, &plan)
	r.plan = plan
	pl.lease.plannedAt = now
	return lb.ReasonChosen
}

// noneHealthy returns the reason for a request for which there is nothing healthy to choose.
func (pl *placement) noneHealthy() lb.Reason {
	if pl.cfg.AmongClusters() {
		return lb.ReasonNoClusterAvailable
	}
	return lb.ReasonNoHealthyEndpoint
}

// leaveUnplanned leaves a request to the gateway for which there is no plan.
func (pl *placement) leaveUnplanned(why lb.Reason) result {
	if pl.phase == phaseReserving {
		pl.closeLease()
	}
	return result{step: stepLeft, why: why}
}

// gone has the request take no part any more in what others wait for.
func (pl *placement) gone() {
	pl.plugin.vm.lists.Left(&pl.metrics.waiter)
	if a := &pl.wait.attempt; a.open {
		pl.cluster.Retries.End(a.id)
	}
	pl.metrics.requestGone(pl.cluster, pl.lease.chosen)
}
