package placement

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/request"
)

// Placement is one choice from plan to outcome: plan, reservation, lease, outcome. Its steps return what has come of
// them; what that means for the request is its driver's business.
type Placement struct {
	basis
	driver Driver
	Wait   waiting  // in the queue of the cluster
	charge charging // what it is charged
	Judge  judging  // what its end means for who has served it

	// OnlyCached: it is to be answered only where its prompt is cached: it neither waits nor leaves its region.
	OnlyCached bool
}

// Start begins the placement of a request, which its driver acts on.
func (pl *Placement) Start(of *Shared, r *request.Request, user clusters.PromptUser, d Driver) {
	pl.Shared, pl.user, pl.driver, pl.Wait.Callee = of, user, d, d
	pl.Subject.Init(r, of.Env, of.Clusters, of.Prompts)
	pl.Lease.Env, pl.Response.From, pl.Response.Env = of.Env, r.Gateway, of.Env
	pl.Wait.of, pl.charge.of, pl.Judge.of = &pl.basis, &pl.basis, &pl.basis
}

// Begin plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (pl *Placement) Begin(size int, ended bool, reason lb.Reason) Result {
	v := pl.Shared
	now := v.Clock()
	view := pl.view(now)
	if view == nil {
		return Result{Step: Native, Why: lb.ReasonNoEndpoints}
	}
	if !pl.Config.AmongClusters() && v.GW.HasSubsets(pl.Scope, pl.Config) {
		return Result{Step: Native, Why: lb.ReasonSubset}
	}
	if pl.Config.AmongClusters() && !pl.NeedsOwnBody() {
		reason = lb.ReasonChosen
	}
	var err error
	switch pl.Cluster, pl.policy, err = v.Clusters.Get(now, pl.Scope, pl.Config); {
	case errors.Is(err, clusters.ErrTooMany):
		return Result{Step: Native, Why: lb.ReasonStoreError}
	case err != nil:
		return Result{Step: Native, Why: lb.ReasonConfigInvalid}
	}
	pl.Cluster.Views[view.ListID] = view
	pl.Response.Cluster = pl.Cluster
	pl.Metrics.Request.Context = pl.Context
	v.Scraping.NeededBy(&pl.Metrics.Request, pl.Cluster.Metrics, pl.Config)
	v.Lists.NeededBy(pl.Cluster.Metrics, pl.Config)
	r := lb.Request{
		Random: v.GW.Random(), Model: pl.Metrics.Model, Session: pl.Session.Key, Idle: pl.Idle(), Trial: pl.Trial,
		Target: pl.target(), Subset: pl.Subset(),
	}
	switch {
	case !pl.Computes():
	case pl.Config.Unit == lb.Tokens:
		pl.Prompt.EstimateWork(&r, size, ended)
	case pl.Cluster.Tokens:
		pl.Prompt.AssumeTypical(&r)
	}
	pl.OnlyCached = pl.PrefersAvailable()
	pl.Facts.Put(&r, size)
	pl.Lease.Reservation = reservation{Request: r, Reason: reason}
	if pl.awaitsLists(view) {
		pl.Enter(PhaseListing)
		return Result{Step: Waits}
	}
	return pl.place(view)
}

// view returns what the configuration chooses from, nil if that is not known. A trial is not routed to the cluster in
// which it would be.
func (pl *Placement) view(now time.Duration) *lb.View {
	if pl.Trial && pl.Within != nil {
		return pl.Shared.Views.Known(now, pl.Scope, pl.Config)
	}
	return pl.Shared.Views.Of(now, pl.Scope, pl.Config)
}

// place plans and reserves for a request of which all is known that will be.
func (pl *Placement) place(view *lb.View) Result {
	if pl.lacksModel(view) {
		return Result{Step: NoPlan, Why: lb.ReasonNoModel}
	}
	now := pl.Shared.Clock()
	if why := pl.makePlan(now, view); why != lb.ReasonChosen {
		if why == lb.ReasonNoMetrics {
			pl.Metrics.WantReport(pl.Gateway, &pl.Traits, pl.Config)
		}
		return Result{Step: NoPlan, Why: why}
	}
	return pl.reserve()
}

// anyLoad is a credit for a cached prompt that no difference in load makes up for, so that one is found that has room.
const anyLoad = 1e12

// makePlan has the policy plan the request. It returns ReasonChosen, or why there is no plan.
func (pl *Placement) makePlan(now time.Duration, view *lb.View) lb.Reason {
	r := &pl.Lease.Reservation
	r.view = view
	plan, why := pl.policy.Plan(now, &r.Request, view)
	if why == lb.ReasonNoHealthyEndpoint || why == lb.ReasonNoEndpoints || pl.isOutdated(view) { // there are none
		if why = pl.noneHealthy(); r.Request.Subset != nil {
			why = lb.ReasonNoneInSubset
		}
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
	if pl.OnlyCached {
		plan.Prefix.Credit, plan.Prefix.CreditBytes = anyLoad, nil
	}
	pl.Kept.Plan(now, pl.Shared.Stores.Local.Holder, &plan)
	r.Plan = plan
	pl.Prompt.Work.Output = r.Request.OutputTokens
	pl.Lease.plannedAt = now
	return lb.ReasonChosen
}

// noneHealthy returns the reason for a request for which there is nothing healthy to choose.
func (b *basis) noneHealthy() lb.Reason {
	if b.Config.AmongClusters() {
		return lb.ReasonNoClusterAvailable
	}
	return lb.ReasonNoHealthyEndpoint
}

// LeaveUnplanned leaves a request to the gateway for which there is no plan.
func (pl *Placement) LeaveUnplanned(why lb.Reason) Result {
	if pl.Phase == PhaseReserving {
		pl.closeLease()
	}
	return Result{Step: Native, Why: why}
}

// Gone has the request take no part any more in what others wait for.
func (pl *Placement) Gone() {
	pl.Shared.Lists.Left(&pl.Metrics.Waiter)
	if a := &pl.Wait.attempt; a.open {
		a.open = false // so that a second end, after a panic, does not count again
		pl.Cluster.Retries.End(a.id)
	}
	pl.Metrics.Gone(pl.Cluster, pl.Lease.Chosen)
}
