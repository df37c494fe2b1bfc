package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/request"
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

// start begins the placement of a request, which its driver acts on.
func (pl *placement) start(of *shared, r *request.Request, user clusters.PromptUser, d driver) {
	pl.shared, pl.user, pl.driver, pl.wait.Request = of, user, d, d
	pl.Subject.Init(r, of.Env, of.clusters, of.prompts)
	pl.lease.Env, pl.response.From, pl.response.Env = of.Env, r.Gateway, of.Env
	pl.wait.of, pl.charge.of, pl.judge.of = &pl.basis, &pl.basis, &pl.basis
}

// begin plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (pl *placement) begin(size int, ended bool, reason lb.Reason) result {
	v := pl.shared
	now := v.Clock()
	view := v.views.Of(now, pl.Scope, pl.Config)
	if view == nil {
		return result{step: stepLeft, why: lb.ReasonNoEndpoints}
	}
	if !pl.Config.AmongClusters() && v.GW.HasSubsets(pl.Scope, pl.Config) {
		return result{step: stepLeft, why: lb.ReasonSubset}
	}
	if pl.Config.AmongClusters() && !pl.NeedsOwnBody() {
		reason = lb.ReasonChosen
	}
	var err error
	switch pl.Cluster, pl.policy, err = v.clusters.Get(now, pl.Scope, pl.Config); {
	case errors.Is(err, clusters.ErrTooMany):
		return result{step: stepLeft, why: lb.ReasonStoreError}
	case err != nil:
		return result{step: stepLeft, why: lb.ReasonConfigInvalid}
	}
	pl.Cluster.Views[view.ListID] = view
	pl.response.Cluster = pl.Cluster
	pl.Metrics.Request.Context = pl.Context
	v.scraping.NeededBy(&pl.Metrics.Request, pl.Cluster.Metrics, pl.Config)
	v.lists.NeededBy(pl.Cluster.Metrics, pl.Config)
	r := lb.Request{
		Random: v.GW.Random(), Model: pl.Metrics.Model, Session: pl.Session.Key, Idle: pl.Idle(),
	}
	switch {
	case !pl.Computes():
	case pl.Config.Unit == lb.Tokens:
		pl.Prompt.EstimateWork(&r, size, ended)
	case pl.Cluster.Tokens:
		pl.Prompt.AssumeTypical(&r)
	}
	pl.Facts.Put(&r, size)
	pl.lease.reservation = reservation{request: r, reason: reason}
	if pl.awaitsLists() {
		pl.enter(phaseListing)
		return result{step: stepWaits}
	}
	return pl.place(view)
}

// place plans and reserves for a request of which all is known that will be.
func (pl *placement) place(view *lb.View) result {
	now := pl.shared.Clock()
	if why := pl.makePlan(now, view); why != lb.ReasonChosen {
		if why == lb.ReasonNoMetrics {
			pl.Metrics.WantReport(pl.Gateway, &pl.Traits, pl.Config)
		}
		return result{step: stepNoPlan, why: why}
	}
	pl.Prompt.Work.Output = pl.lease.reservation.request.OutputTokens
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
	if pl.Prompt.Work.Open && pl.Prompt.Work.Seen == 0 {
		plan.Tokens = request.OpenTokens
	}
	if !pl.Computes() {
		plan.Budget, plan.Unit = lb.Budget{}, lb.Requests // tokens say nothing of it
	}
	if pl.Prompt.Chain != nil {
		pl.Cluster.Prompts.View = view
	}
	pl.State.Plan(now, pl.shared.stores, &plan)
	r.plan = plan
	pl.lease.plannedAt = now
	return lb.ReasonChosen
}

// noneHealthy returns the reason for a request for which there is nothing healthy to choose.
func (pl *placement) noneHealthy() lb.Reason {
	if pl.Config.AmongClusters() {
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
