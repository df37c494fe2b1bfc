package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stats"
)

// The servers of a region whose gateways are gone are served from here as this region's own, if it has adopted them: a
// request that would be forwarded there has one of them chosen instead. That is a choice of its own, as inside a
// cluster: the inner placement has the plan, the lease and the place in a queue, in the cluster of those servers.

// findServers sends the request to the adopted servers of a peer if one of them is open, as far as that is known here
// and now. What is seen by that counts for all.
func (f *forwarding) findServers(now time.Duration, h *home, peer int) (found bool) {
	pl := f.pl
	r, to := pl.plugin.vm.regions, &pl.Config.Regions.Peers[peer]
	f.to = to.Name
	pl.Gateway.SetCluster(pl.Config.Regions.Header, to.Adopt)
	view := r.views.Of(now, to.Adopt, pl.Config)
	state, earlier, known := r.stateOf(now, h, pl.Config, view, pl.Context)
	switch {
	case view != nil && !known: // Redis will tell
		found = true
	case earlier != nil:
		found = r.saw(h, peer, earlier, state)
	default:
		found = state.Open > 0
		state.Open = max(0, state.Open-1) // where this request goes
		r.note(h.board.See(now, peer, state))
	}
	r.askRedis(now, h, peer, 1)
	if !found {
		f.recall()
	}
	return found
}

// adopt has an adopted server chosen for the request, which is routed there by now.
func (f *forwarding) adopt(peer int, why region.Reason) host.Action {
	pl := f.pl
	to, r := &pl.Config.Regions.Peers[peer], &pl.lease.reservation
	f.why = why
	reason := r.reason
	if reason == lb.ReasonChosen {
		reason = lb.ReasonAdopted
	}
	in := newChoice(pl.stream, pl, pl.Config, to.Adopt)
	pl.inside = in
	in.Session.Key, in.Session.Next = pl.Session.Key, pl.Session.Next
	in.Facts.Model, in.Metrics.Model = pl.Facts.Model, pl.Metrics.Model
	in.State.TakeOver(&pl.State)
	in.region = forwarding{pl: in, to: to.Name, why: why}
	w, of := &pl.wait, &pl.Prompt.Work
	in.Prompt.Work = request.Work{Info: of.Info, Seen: of.Seen, Text: of.Text, Model: of.Model}
	in.wait.since, in.wait.queued, in.wait.waited = w.since, w.queued, w.waited
	in.lease.grantedAt = pl.lease.grantedAt
	if pl.Prompt.Chain != nil {
		chain := *pl.Prompt.Chain
		in.Prompt.Chain = &chain
	}
	pl.reason, pl.settled = lb.ReasonAdopted, true // it is counted where the server is chosen
	pl.plugin.vm.Stats.CountIf(statname.With(stats.AtAdopted, "region", to.Name, "reason", why.String()), 1)
	return in.decide(max(pl.seen.size, pl.Body.Received), pl.seen.ended || pl.Body.EndedAt > 0, reason)
}

// maxReturns is how often a request may come back from adopted servers, until it stays at home.
const maxReturns = 3

// leaveAdopted brings a request back for which an adopted cluster has nothing any more. It is reserved at home again,
// as of when it came: where nothing was open, it must not pass those that wait, nor the caps. Whatever else keeps the
// plugin from choosing there, the gateway balances in the adopted cluster.
func (f *forwarding) leaveAdopted() host.Action {
	pl := f.pl
	o, v, from := pl.outer, pl.plugin.vm, f.to
	o.inside, o.settled, pl.settled = nil, false, true // it is counted at home
	o.lease.grantedAt, o.wait.queued = pl.lease.grantedAt, o.wait.queued || pl.wait.queued
	pl.end()
	h := v.regions.of(o.Config)
	peers := h.board.Config().Peers
	peer := slices.IndexFunc(peers, func(p region.Peer) bool { return p.Name == from })
	v.regions.note(h.board.See(v.ReadClock(), peer, region.State{}))
	o.region.recall()
	o.region = forwarding{pl: o, from: o.region.from, returns: o.region.returns + 1}
	if o.lease.store == nil { // it had no plan: nothing at home was healthy
		return o.region.planAnew()
	}
	o.enter(phaseReserving)
	o.lease.open(o.Cluster)
	return o.wait.replan()
}

// planAnew plans and reserves for a request that had no plan.
func (f *forwarding) planAnew() host.Action {
	pl := f.pl
	view, why := pl.plugin.vm.views.Of(pl.plugin.vm.Clock(), pl.Scope, pl.Config), lb.ReasonNoEndpoints
	if view != nil {
		why = pl.makePlan(pl.plugin.vm.Clock(), view)
	}
	if why != lb.ReasonChosen {
		return pl.pass(why)
	}
	return pl.reserve()
}

// isAdopted reports whether this is the choice of an adopted server.
func (f *forwarding) isAdopted() bool { return f.pl.outer != nil && f.to != "" }
