package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
)

// A request has a row of choices. The first chooses an endpoint of its route's cluster, or one of several clusters;
// then one inside of it may choose an endpoint in the chosen cluster (lb_config.endpoint), or a server of another
// region whose gateways are gone. Each has its plan, its lease and its place in a queue, and gives them back by itself,
// whatever ends the request: it is called back for the same events, behind the one that it is inside of.

// choice is one of the row: a placement, and what is done around it.
type choice struct {
	placement
	decision
	stream *Stream
	plugin *Plugin

	region  forwarding // to or from another region
	steer   steering   // where it is sent
	serving serving    // who serves it, and what the answer shows

	inside *choice // the next of the row, nil for none
	outer  *choice // the one that this is inside of, nil for none
	seen   seen    // what has come of the request, for the one inside a cluster
}

// newChoice returns a choice for the request by a configuration, nil if that is not known yet, inside of another one
// unless that is nil.
func newChoice(s *Stream, outer *choice, c *config.Config, scope string) *choice {
	pl := &choice{stream: s, plugin: s.plugin, outer: outer}
	pl.Config, pl.Scope = c, scope
	pl.start(&s.plugin.vm.placing, &s.Request, s.plugin, pl)
	pl.steer.of, pl.serving.pl = &pl.basis, &pl.placement
	pl.region.pl, pl.region.regions = &pl.placement, s.plugin.vm.regions
	pl.decision = decision{of: &pl.placement, away: &pl.region}
	return pl
}

// decide plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (pl *choice) decide(size int, ended bool, reason lb.Reason) host.Action {
	if pl.Session.Find(pl.Gateway, &pl.Traits, pl.Config, nil, true); pl.LacksKey() {
		return pl.refuseWithoutKey()
	}
	pl.seen.size, pl.seen.ended = size, ended
	return pl.act(pl.begin(size, ended, reason))
}

// act does what the result of a step of the placement asks for, and returns what becomes of the request.
func (pl *choice) act(r result) host.Action {
	for {
		switch r.step {
		case stepWaits:
			return host.Stop
		case stepPlaced:
			return pl.send()
		case stepRefused:
			return pl.refuse(r.why, r.expected)
		case stepLeft:
			return pl.pass(r.why)
		}
		if a, left := pl.leave(pl.elsewhere(r)); left {
			return a
		}
		switch r.step {
		case stepReady:
			r = pl.submit(r.at)
		case stepAsked:
			if pl.wait.mayWait() {
				pl.prepareInside()
			}
			r = pl.hold(r.at)
		case stepNoRoom:
			r = pl.giveUp()
		case stepNoPlan:
			r = pl.leaveUnplanned(r.why)
		}
	}
}

// elsewhere sends a request to another region that is better there, or for which there is nothing here.
func (pl *choice) elsewhere(r result) leaving {
	switch {
	case r.step == stepReady:
		return pl.region.forwardBack()
	case r.step == stepNoRoom, r.step == stepAsked && pl.wait.isQueued(), r.why == lb.ReasonNoHealthyEndpoint:
		return pl.region.forward()
	}
	return stays
}

// send sends a request to what was chosen for it.
func (pl *choice) send() host.Action {
	v, l := pl.plugin.vm, &pl.lease
	r := &l.reservation
	if pl.Config.Shadow {
		r.reason = lb.ReasonShadow
		pl.steer.leaveToGateway()
	} else if err := pl.steer.send(); err != nil {
		v.GW.Log(host.Warn, "the gateway refused the destination "+l.chosen+": "+err.Error())
		pl.release()
		return pl.pass(lb.ReasonStoreError)
	}
	r.reason = pl.State.Placed(r.reason, r.grant.Cached)
	pl.sessionPlaced()
	pl.decided(r.reason)
	pl.wait.countPlaced()
	pl.requestPlaced()
	if w := &pl.Prompt.Work; w.Open && w.Seen > 0 {
		pl.Body.Track(w, pl)
	}
	if pl.Body.EndedAt > 0 {
		pl.amendWork() // the end of the body has come while the store decided
	}
	if pl.Config.DetailLog {
		v.GW.Log(host.Info, "cluster="+pl.Cluster.Name+" "+pl.describe())
	}
	return pl.chooseInside()
}

// refuse answers a request for which there is no room. expected is as for answerRefused. Nothing is refused in shadow
// mode.
func (pl *choice) refuse(why lb.Reason, expected time.Duration) host.Action {
	if pl.Config.Shadow {
		return pl.pass(lb.ReasonShadow)
	}
	pl.decided(why)
	pl.answerRefused(why, expected)
	return host.Hold
}

// forbid answers the request with 403.
func (pl *choice) forbid(why lb.Reason, text string) host.Action {
	pl.enter(phaseUncounted)
	pl.Gateway.Unsteer()
	pl.decided(why)
	pl.Gateway.Reply(403, nil, text)
	return host.Hold
}

// refuseWithoutKey refuses a request that has not the header, or other key, by which cluster_hash chooses, as Higress's
// plugin does.
func (pl *choice) refuseWithoutKey() host.Action {
	return pl.forbid(lb.ReasonNoHashHeader, "hash header required")
}

// pass lets the request fall back to the gateway's native balancing.
func (pl *choice) pass(reason lb.Reason) host.Action {
	pl.enter(phaseUncounted)
	if pl.isAdopted() && (reason == lb.ReasonNoEndpoints || reason == lb.ReasonNoHealthyEndpoint) {
		return pl.leaveAdopted()
	}
	pl.steer.leaveToGateway()
	if pl.region.to != "" && !pl.isAdopted() {
		pl.region.recall()
	}
	pl.decided(reason)
	return host.Proceed
}

// decided counts the request under its reason, and writes it to the access log.
func (pl *choice) decided(reason lb.Reason) {
	pl.count(reason)
	pl.SetNote(pl.describe() + pl.wait.text())
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

// GrantRecovered ends an answer that panicked. There is no callback of the request to let it continue.
func (pl *choice) GrantRecovered() {
	defer pl.Gateway.Resume()
	pl.Recovered()
}

// answered implements driver.
func (pl *choice) answered(r result) { pl.goOn(pl.act(r)) }

// PlanAgain gives the request the endpoints that there are by now. It keeps its place in the queue.
func (pl *choice) PlanAgain() {
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
	pl.answered(pl.reserveAgain())
}

// GiveWay ends the wait of the request for another one.
func (pl *choice) GiveWay() {
	if r, ended := pl.makeWay(); ended {
		pl.answered(r)
	}
}

// GoElsewhere sends a request that waits to another region, if one has room.
func (pl *choice) GoElsewhere() {
	if a, left := pl.leave(pl.region.forward()); left {
		pl.goOn(a)
	}
}
