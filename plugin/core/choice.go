package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/forward"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/placement"
	"github.com/warmgate/warmgate/plugin/vm"
)

// A request has a row of choices. The first chooses an endpoint of its route's cluster, or one of several clusters;
// then one inside of it may choose an endpoint in the chosen cluster (lb_config.endpoint), or a server of another
// region whose gateways are gone. Each has its plan, its lease and its place in a queue, and gives them back by itself,
// whatever ends the request: it is called back for the same events, behind the one that it is inside of.

// choice is one of the row: a placement, and what is done around it.
type choice struct {
	placement.Placement
	decision
	stream *Stream
	plugin *vm.Plugin

	region  forward.Forwarding // to or from another region
	serving placement.Serving  // who serves it, and what the answer shows

	foresight placement.Foresight // what would become of it, if it is a trial
	showing   showing             // to those who watch

	inside *choice // the next of the row, nil for none
	outer  *choice // the one that this is inside of, nil for none
	seen   seen    // what has come of the request, for the one inside a cluster
	note   string  // the decision, as the line of the access log has it
	span   span    // shows it to the span of its request
}

// newChoice returns a choice for the request by a configuration, nil if that is not known yet, inside of another one
// unless that is nil.
func newChoice(s *Stream, outer *choice, c *config.Config, scope string) *choice {
	pl := &choice{stream: s, plugin: s.plugin, outer: outer}
	pl.Config, pl.Scope = c, scope
	pl.Start(&s.plugin.VM.Shared, &s.Request, s.plugin, pl)
	pl.serving.Of, pl.foresight.Of = &pl.Placement, &pl.Placement
	pl.showing = showing{of: &pl.foresight, in: s.plugin.VM.Inspector}
	pl.region = forward.New(&pl.Placement, s.plugin.VM.Regions)
	pl.decision = decision{of: &pl.Placement, away: &pl.region}
	pl.span = span{of: &pl.serving, by: pl, in: s.plugin.VM}
	return pl
}

// decide plans and reserves: size bytes of the body have come, all of it or not. reason is the one to count when an
// endpoint is chosen.
func (pl *choice) decide(size int, ended bool, reason lb.Reason) host.Action {
	if pl.Find(nil, true); pl.LacksKey() {
		return pl.refuseWithoutKey()
	}
	pl.seen.size, pl.seen.ended = size, ended
	return pl.act(pl.Begin(size, ended, reason))
}

// act does what the result of a step of the placement asks for, and returns what becomes of the request.
func (pl *choice) act(r placement.Result) host.Action {
	for {
		switch r.Step {
		case placement.Waits:
			return host.Stop
		case placement.Placed:
			return pl.send()
		case placement.Refused:
			return pl.refuse(r.Why, r.Expected)
		case placement.Native:
			return pl.pass(r.Why)
		case placement.Foreseen:
			return pl.foreseen()
		}
		if a, left := pl.leave(pl.elsewhere(r)); left {
			return a
		}
		switch r.Step {
		case placement.Planned:
			r = pl.foresight.Foresee(r.At)
		case placement.Ready:
			pl.showing.foresee(r.At)
			r = pl.Submit(r.At)
		case placement.Asked:
			if pl.Wait.MayWait() {
				pl.prepareInside()
			}
			r = pl.Hold(r.At)
		case placement.NoRoom:
			r = pl.GiveUp()
		case placement.NoPlan:
			if r.Why == lb.ReasonNoHealthyEndpoint && !pl.OnlyCached &&
				(pl.region.Awaits() || !pl.isAdopted() && pl.AwaitsEndpoint()) {
				r = pl.WaitUnplanned()
			} else {
				r = pl.LeaveUnplanned(r.Why)
			}
		}
	}
}

// elsewhere sends a request to another region that is better there, or for which there is nothing here.
func (pl *choice) elsewhere(r placement.Result) forward.Leaving {
	switch {
	case pl.OnlyCached:
		return forward.Stays
	case r.Step == placement.Ready:
		return pl.region.ForwardBack()
	case r.Step == placement.NoRoom, r.Step == placement.Asked && pl.Wait.IsQueued(),
		r.Why == lb.ReasonNoHealthyEndpoint:
		return pl.region.Forward()
	}
	return forward.Stays
}

// send sends a request to what was chosen for it.
func (pl *choice) send() host.Action {
	log := pl.plugin.VM.GW.Log
	if pl.Config.Shadow {
		pl.leaveToGateway()
	} else if err := pl.steer(); err != nil {
		log(host.Warn, "the gateway refused the destination "+pl.Lease.Chosen+": "+err.Error())
		pl.Release()
		return pl.pass(lb.ReasonStoreError)
	}
	pl.decided(pl.serving.ReasonSent())
	pl.serving.Sent()
	if pl.Config.DetailLog {
		log(host.Info, "cluster="+pl.Cluster.Name+" "+string(pl.appendTo(nil)))
	}
	return pl.chooseInside()
}

// foreseen goes on with a trial of whose choice it is known what would become.
func (pl *choice) foreseen() host.Action {
	if pl.decided(pl.foresight.Reason()); pl.Lease.Chosen == "" {
		return host.Proceed
	}
	return pl.chooseInside()
}

// steer sends the request to what was chosen: an endpoint by its address, or a cluster by a header, from which its
// route takes it (lb_type cluster).
func (pl *choice) steer() error {
	l, to := &pl.Lease, pl.Gateway
	if !pl.Config.AmongClusters() {
		setRank(to, pl.Config, l.Chosen)
		return to.Steer(lb.ServerOf(l.Chosen), pl.Others())
	}
	l.SteeredAt = l.ReadClock()
	to.Unsteer()
	to.SetCluster(pl.Config.Clusters.Header, l.Chosen)
	return nil
}

// leaveToGateway leaves the request to the gateway.
func (pl *choice) leaveToGateway() {
	pl.Gateway.Unsteer()
	c := pl.Config
	if c == nil {
		return
	}
	if setRank(pl.Gateway, c, ""); c.AmongClusters() && pl.Lease.SteeredAt > 0 {
		pl.Gateway.SetCluster(c.Clusters.Header, "")
	}
}

// refuse answers a request for which there is no room. expected is as for [placement.Placement.NoteRefused]. Nothing is
// refused in shadow mode.
func (pl *choice) refuse(why lb.Reason, expected time.Duration) host.Action {
	if pl.Config.Shadow {
		return pl.pass(lb.ReasonShadow)
	}
	if why == lb.ReasonNotCached {
		return pl.answer(412, why, refusalHeaders(&placement.Refusal{}), notCachedBody)
	}
	pl.decided(why)
	if pl.Trial {
		pl.Lease.Reservation.Grant.Expected = expected
		return host.Proceed
	}
	r := pl.NoteRefused(why, expected)
	pl.serving.Refused = pl.Config.Overload.Status
	pl.Gateway.Reply(pl.Config.Overload.Status, refusalHeaders(&r), overloadBody(why))
	return host.Hold
}

// forbid answers the request with 403.
func (pl *choice) forbid(why lb.Reason, text string) host.Action {
	return pl.answer(403, why, nil, text)
}

// answer answers a request in place of an endpoint. No endpoint may be reserved for it.
func (pl *choice) answer(status int, why lb.Reason, headers [][2]string, text string) host.Action {
	pl.Enter(placement.PhaseUncounted)
	pl.Gateway.Unsteer()
	pl.decided(why)
	pl.serving.Refused = status
	pl.Gateway.Reply(status, headers, text)
	return host.Hold
}

// refuseWithoutKey refuses a request that has not the header, or other key, by which cluster_hash chooses, as Higress's
// plugin does.
func (pl *choice) refuseWithoutKey() host.Action {
	return pl.forbid(lb.ReasonNoHashHeader, "hash header required")
}

// pass lets the request fall back to the gateway's native balancing, but for one that must not leave its subset, or
// whose model no endpoint has.
func (pl *choice) pass(reason lb.Reason) host.Action {
	if pl.isAdopted() {
		switch reason {
		case lb.ReasonNoModel:
			pl.outer.Facts.NoteAbsentIn(pl.region.To)
			fallthrough
		case lb.ReasonNoEndpoints, lb.ReasonNoHealthyEndpoint:
			pl.Enter(placement.PhaseUncounted)
			return pl.leaveAdopted()
		}
	}
	switch {
	case reason == lb.ReasonNoModel:
		status := 404
		if pl.Wait.Forwarded {
			status = 503 // the region that it is from has a retry served at home
		}
		names := pl.Cluster.Metrics.ListedModels()
		return pl.answer(status, reason, refusalHeaders(&placement.Refusal{}), noModelBody(names))
	case reason == lb.ReasonNoneInSubset && !pl.Config.Shadow:
		return pl.answer(503, reason, refusalHeaders(&placement.Refusal{}), overloadBody(reason))
	}
	pl.Enter(placement.PhaseUncounted)
	pl.leaveToGateway()
	pl.Response.SentAt = pl.plugin.VM.GW.Now()
	if pl.outer == nil && pl.region.IsAway() {
		pl.region.Recall()
	}
	pl.decided(reason)
	return host.Proceed
}

// decided counts the request under its reason, and writes it to the access log.
func (pl *choice) decided(reason lb.Reason) {
	pl.count(reason)
	pl.setNote()
	pl.showing.decided(reason, pl.region.To)
}

func (pl *choice) count(reason lb.Reason) {
	pl.reason, pl.settled = reason, true
	policy := ""
	if pl.Config != nil {
		policy = pl.Config.Policy
	}
	if !pl.Trial {
		pl.plugin.VM.Stats.Decided(policy, reason)
	}
}

// Recovered ends a callback that panicked: the lease is released, and the request falls back to native balancing.
func (pl *choice) Recovered() {
	if pl.outer != nil && pl.outer.inside != pl { // it has left its part to the outer choice
		pl.outer.Recovered()
		return
	}
	pl.Body.StopReading()
	pl.Release()
	if !pl.settled {
		pl.pass(lb.ReasonPanic)
	}
	if pl.inside != nil && pl.inside.Phase != placement.PhaseDone {
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

// Answered implements placement.Driver.
func (pl *choice) Answered(r placement.Result) { pl.goOn(pl.act(r)) }

// GoElsewhere sends a request that waits to another region, if one has room.
func (pl *choice) GoElsewhere() {
	if a, left := pl.leave(pl.region.Forward()); left {
		pl.goOn(a)
	}
}
