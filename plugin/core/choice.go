package core

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/request"
)

// A request has a row of choices. The first chooses an endpoint of its route's cluster, or one of several clusters;
// then one inside of it may choose an endpoint in the chosen cluster (lb_config.endpoint), or a server of another
// region whose gateways are gone. Each has its plan, its lease and its place in a queue, and gives them back by itself,
// whatever ends the request: it is called back for the same events, behind the one that it is inside of.

// choice is one of the row: a placement, and what is done around it.
type choice struct {
	placement
	stream  *Stream
	reason  lb.Reason
	settled bool // the request is counted under its reason

	region  forwarding // to or from another region
	steer   steering   // where it is sent
	within  nesting    // the choice of an endpoint in the cluster that was chosen
	refusal refusals   // the answer to it where there is no room
	serving serving    // who serves it, and what the answer shows
	debug   debugging  // texts that explain it

	inside *choice // the next of the row, nil for none
	outer  *choice // the one that this is inside of, nil for none
	seen   seen    // what has come of the request, for the one inside a cluster
}

// newChoice returns a choice for the request by a configuration, nil if that is not known yet, inside of another one
// unless that is nil.
func newChoice(s *Stream, outer *choice, c *config.Config, scope string) *choice {
	pl := &choice{stream: s, outer: outer}
	v := s.plugin.vm
	pl.basis = basis{
		Subject: request.Subject{Config: c, Scope: scope},
		plugin:  s.plugin, lease: lease{Env: v.Env}, response: reading{from: s.Gateway, env: v.Env},
	}
	pl.Subject.Init(&s.Request, v.Env, v.clusters, v.prompts)
	pl.region.pl, pl.wait.pl, pl.wait.request, pl.steer.pl, pl.within.pl = pl, pl, pl, pl, pl
	pl.charge.pl, pl.refusal.pl, pl.serving.pl, pl.judge.pl, pl.debug.pl = pl, pl, pl, pl, pl
	return pl
}

// headersCame is called once, with end when the request has no body.
func (pl *choice) headersCame(end bool) host.Action {
	if steered(pl.Gateway.Note()) {
		return pl.passDuplicate()
	}
	if a, isCall := pl.stream.meetAPI(end); isCall {
		return a
	}
	pl.stream.stripClusterHeaders()
	if pl.plugin.set == nil {
		return pl.pass(lb.ReasonConfigInvalid)
	}
	if a, answered := pl.region.meet(); answered {
		return a
	}
	pl.Scope = pl.match()
	switch {
	case pl.Config == nil:
		return pl.pass(lb.ReasonNoRule)
	case pl.Config.Refused:
		return pl.pass(lb.ReasonConfigInvalid)
	case !pl.Config.Enabled:
		return pl.pass(lb.ReasonDisabled)
	}
	if pl.Scope = pl.steer.scopeOf(pl.Scope); pl.Scope == "" {
		return pl.pass(lb.ReasonNoCluster)
	}
	if pl.plugin.set.Owns(pl.Scope) {
		// a route has sent it there, perhaps because a client named it
		return pl.refusal.forbid(lb.ReasonOwnCluster, "")
	}
	pl.Body.Arrived(pl.arrived(), end)
	pl.MeetCall(end)
	pl.Session.Find(pl.Gateway, &pl.Traits, pl.Config, nil, false)
	if pl.refusal.lacksKey() && pl.Session.Next == len(pl.Config.Session) { // else it may come with the body
		return pl.refusal.refuseWithoutKey()
	}
	if end || !pl.NeedsOwnBody() && !pl.within.needsBodyInside() {
		return pl.decide(0, true, lb.ReasonChosen)
	}
	pl.Traits.Read(pl.Gateway)
	switch {
	case pl.Traits.Opaque:
		return pl.decide(0, true, lb.ReasonChosen)
	case pl.Traits.Multipart && pl.Facts.ReadsFacts() && !pl.Traits.Awaits: // for its model, no more
	case pl.Traits.Encoded && pl.Config.Unit != lb.Tokens:
		return pl.decide(0, true, lb.ReasonChosen)
	case pl.Traits.Encoded:
		return pl.decide(0, false, lb.ReasonBodyEncoded)
	case pl.Traits.Awaits:
		return pl.decide(0, false, lb.ReasonBodyLate)
	}
	pl.enter(phaseReading)
	pl.Body.Await(pl.PlanBody(pl.within.needsBodyInside()))
	return host.Hold
}

// arrived returns the time at which the headers have come: exactly, if the request's deadline counts from it.
func (pl *choice) arrived() time.Duration {
	now := pl.plugin.vm.Clock()
	if pl.Config.Queue.Enabled() && pl.Config.Queue.DeadlineHeader != "" {
		now = pl.plugin.vm.ReadClock()
	}
	pl.Body.BeganAt = now
	return now
}

// match finds the configuration for the request. It returns the cluster if it had to read it.
func (pl *choice) match() (cluster string) {
	set := pl.plugin.set
	if !set.HasRules() {
		pl.Config = set.Match("", "", "")
		return ""
	}
	cluster = pl.routedTo()
	pl.Traits.Read(pl.Gateway)
	pl.Config = set.Match(pl.Gateway.Route(), cluster, pl.Traits.Authority)
	return cluster
}

// decide plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (pl *choice) decide(size int, ended bool, reason lb.Reason) host.Action {
	v := pl.plugin.vm
	now := v.Clock()
	if pl.Session.Find(pl.Gateway, &pl.Traits, pl.Config, nil, true); pl.refusal.lacksKey() {
		return pl.refusal.refuseWithoutKey()
	}
	view := v.views.Of(now, pl.Scope, pl.Config)
	if view == nil {
		return pl.pass(lb.ReasonNoEndpoints)
	}
	if !pl.Config.AmongClusters() && v.GW.HasSubsets(pl.Scope, pl.Config) {
		return pl.pass(lb.ReasonSubset)
	}
	pl.seen.size, pl.seen.ended = size, ended
	if pl.Config.AmongClusters() && !pl.NeedsOwnBody() {
		reason = lb.ReasonChosen
	}
	var err error
	switch pl.Cluster, pl.policy, err = v.clusters.Get(now, pl.Scope, pl.Config); {
	case errors.Is(err, clusters.ErrTooMany):
		return pl.pass(lb.ReasonStoreError)
	case err != nil:
		return pl.pass(lb.ReasonConfigInvalid)
	}
	pl.Cluster.Views[view.ListID] = view
	pl.response.cluster = pl.Cluster
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
		return host.Stop
	}
	return pl.place(view)
}

// place plans and reserves for a request of which all is known that will be.
func (pl *choice) place(view *lb.View) host.Action {
	now := pl.plugin.vm.Clock()
	if why := pl.makePlan(now, view); why != lb.ReasonChosen {
		if why == lb.ReasonNoMetrics {
			pl.Metrics.WantReport(pl.Gateway, &pl.Traits, pl.Config)
		}
		return pl.region.passOrForward(why)
	}
	pl.Prompt.Work.Output = pl.lease.reservation.request.OutputTokens
	return pl.reserve()
}

// makePlan has the policy plan the request. It returns ReasonChosen, or why there is no plan.
func (pl *choice) makePlan(now time.Duration, view *lb.View) lb.Reason {
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
	pl.State.Plan(now, pl.plugin.vm.stores.Local, &plan)
	r.plan = plan
	pl.lease.plannedAt = now
	return lb.ReasonChosen
}

// noneHealthy returns the reason for a request for which there is nothing healthy to choose.
func (pl *choice) noneHealthy() lb.Reason {
	if pl.Config.AmongClusters() {
		return lb.ReasonNoClusterAvailable
	}
	return lb.ReasonNoHealthyEndpoint
}

// forbid answers the request with 403.
func (r *refusals) forbid(why lb.Reason, text string) host.Action {
	pl := r.pl
	pl.enter(phaseUncounted)
	pl.Gateway.Unsteer()
	pl.decided(why)
	pl.Gateway.Reply(403, nil, text)
	return host.Hold
}

// lacksKey reports whether cluster_hash is to choose by a key that was not found so far.
func (r *refusals) lacksKey() bool {
	pl := r.pl
	return pl.Config.Clusters.Hashed && pl.Session.Key == 0 && !pl.Config.Shadow
}

// refuseWithoutKey refuses a request that has not the header, or other key, by which cluster_hash chooses, as Higress's
// plugin does.
func (r *refusals) refuseWithoutKey() host.Action {
	return r.forbid(lb.ReasonNoHashHeader, "hash header required")
}

// pass lets the request fall back to the gateway's native balancing.
func (pl *choice) pass(reason lb.Reason) host.Action {
	pl.enter(phaseUncounted)
	if pl.region.isAdopted() && (reason == lb.ReasonNoEndpoints || reason == lb.ReasonNoHealthyEndpoint) {
		return pl.region.leaveAdopted()
	}
	pl.steer.leaveToGateway()
	pl.decided(reason)
	return host.Proceed
}

// passOrForward does so with a request that has no plan. If there is no healthy endpoint, another region may have.
func (f *forwarding) passOrForward(reason lb.Reason) host.Action {
	if reason == lb.ReasonNoHealthyEndpoint {
		if a, forwarded := f.forward(); forwarded {
			return a
		}
	}
	return f.pl.pass(reason)
}

// passDuplicate leaves the request to another instance of the plugin, in front of this one, which has counted and
// steered it.
func (pl *choice) passDuplicate() host.Action {
	pl.enter(phaseUncounted)
	pl.count(lb.ReasonAlreadyDecided)
	if v := pl.plugin.vm; !v.duplicate {
		v.duplicate = true
		v.GW.Log(host.Warn, "the plugin is twice in one filter chain: the second one leaves requests to the first")
	}
	return host.Proceed
}

// decided counts the request under its reason, and writes it to the access log.
func (pl *choice) decided(reason lb.Reason) {
	pl.count(reason)
	pl.SetNote(pl.debug.describe() + pl.wait.text())
}

func (pl *choice) count(reason lb.Reason) {
	pl.reason, pl.settled = reason, true
	policy := ""
	if pl.Config != nil {
		policy = pl.Config.Policy
	}
	pl.plugin.vm.Stats.Decided(policy, reason)
}

// Recovered ends a callback that panicked: the lease is released, and the request falls back to native balancing.
func (pl *choice) Recovered() {
	if pl.outer != nil && pl.outer.inside != pl { // it has left its part to the outer choice
		pl.outer.Recovered()
		return
	}
	pl.Body.StopReading()
	pl.release()
	if !pl.settled {
		pl.pass(lb.ReasonPanic)
	}
	if pl.inside != nil && pl.inside.phase != phaseDone {
		pl.inside.Recovered()
	}
}

// goOn lets a request that was held go on, if it is to be forwarded.
func (pl *choice) goOn(a host.Action) {
	if a == host.Proceed {
		pl.Gateway.Resume()
	}
}

// grantRecovered ends an answer that panicked. There is no callback of the request to let it continue.
func (pl *choice) grantRecovered() {
	defer pl.Gateway.Resume()
	pl.Recovered()
}

// planAgain gives the request the endpoints that there are by now. It keeps its place in the queue.
func (pl *choice) planAgain() {
	if pl.phase != phaseReserving || pl.lease.reservation.done {
		return
	}
	l := &pl.lease
	store, old := l.store, l.reservation.id
	defer func() {
		l.reservation.plan.Wait.Instead = 0
		store.Release(l.now(), old) // what the new reservation has not taken over
	}()
	l.reservation.plan.Wait.Instead = old
	pl.goOn(pl.wait.reserveAgain())
}

// giveWay ends the wait of the request, whose memory another one needs, as if the queue had been full.
func (pl *choice) giveWay() {
	l := &pl.lease
	r := &l.reservation
	if pl.phase != phaseReserving || r.done {
		return
	}
	inside := r.inCallback
	r.inCallback = true // whatever the store answers to this
	l.store.Release(l.now(), r.id)
	r.inCallback = inside
	r.answer(lb.Grant{Queued: true}, lb.ErrEvicted)
	if inside {
		pl.wait.over = true
		return // the request's own callback goes on with that
	}
	pl.goOn(pl.finishReservation())
}

// goElsewhere sends a request that waits to another region, if one has room.
func (pl *choice) goElsewhere() {
	if a, forwarded := pl.region.forward(); forwarded {
		pl.goOn(a)
	}
}
