package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
)

// The servers of a region whose gateways are gone are served from here as this region's own, if it has adopted them: a
// request that would be forwarded there has one of them chosen instead. That is a choice of its own, as inside a
// cluster: the inner Stream has the plan, the lease and the place in a queue, in the cluster of those servers.

// seeServers has the board know what the servers of an adopted peer have room for. The gateways are asked on.
func (r *regions) seeServers(now time.Duration, h *home, peer int) {
	cluster := h.cfg.Regions.Peers[peer].Adopt
	if cluster == "" || !h.board.Adopted(peer) {
		return
	}
	view := r.gw.KnownView(now, cluster, h.cfg)
	if view == nil && r.kind == config.Higress { // only a request that is sent there sees them
		r.note(h.board.Guess(now, peer))
		return
	}
	state, earlier, known := r.stateOf(now, h, h.cfg, view, 0)
	switch {
	case earlier != nil:
		r.saw(h, peer, earlier, state)
	case known:
		r.note(h.board.See(now, peer, state))
	}
	r.askRedis(now, h, peer, 0)
}

// saw has the board know what adopted servers had room for when Redis was asked, and reports whether what was sent
// since, from all workers, fits.
func (r *regions) saw(h *home, peer int, l *redisLoads, state region.State) bool {
	fits, err := h.board.Saw(l.at, peer, l.sent, state)
	r.note(err)
	return fits
}

// findServers sends the request to the adopted servers of a peer if one of them is open, as far as that is known here
// and now. What is seen by that counts for all.
func (s *Stream) findServers(now time.Duration, h *home, peer int) (found bool) {
	r, to := s.plugin.vm.regions, &s.cfg.Regions.Peers[peer]
	s.region.to = to.Name
	s.SetCluster(s.cfg.Regions.Header, to.Adopt)
	view := r.views.of(now, to.Adopt, s.cfg)
	state, earlier, known := r.stateOf(now, h, s.cfg, view, s.context)
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
		s.recall()
	}
	return found
}

// adopt has an adopted server chosen for the request, which is routed there by now.
func (s *Stream) adopt(peer int, why region.Reason) Action {
	to, r := &s.cfg.Regions.Peers[peer], &s.lease.reservation
	s.region.why = why
	w, reason := s.work, r.reason
	if reason == lb.ReasonChosen {
		reason = lb.ReasonAdopted
	}
	s.inside = &Stream{
		GatewayStream: s.GatewayStream, outer: s, context: s.context, plugin: s.plugin, cfg: s.cfg,
		scope: to.Adopt, traits: s.traits, what: s.what, body: s.body, session: s.session,
		held: s.held, facts: factUse{model: s.facts.model},
		region:  forwarding{to: to.Name, why: why},
		work:    work{info: w.info, seen: w.seen, text: w.text, model: w.model},
		metrics: metricsUse{model: s.metrics.model},
		wait:    waiting{since: s.wait.since, queued: s.wait.queued, waited: s.wait.waited},
		lease:   lease{vm: s.plugin.vm},
	}
	s.inside.session.result, s.inside.held.asked = "", false
	if s.chain != nil {
		chain := *s.chain
		s.inside.chain = &chain
	}
	s.reason, s.settled = lb.ReasonAdopted, true // it is counted where the server is chosen
	s.plugin.vm.stats.countIf(statname.With(statAtAdopted, "region", to.Name, "reason", why.String()), 1)
	return s.inside.decide(max(s.seen.size, s.body.received), s.seen.ended || s.body.endedAt > 0, reason)
}

// maxReturns is how often a request may come back from adopted servers, until it stays at home.
const maxReturns = 3

// leaveAdopted brings a request back for which an adopted cluster has nothing any more. It is reserved at home again,
// as of when it came: where nothing was open, it must not pass those that wait, nor the caps. Whatever else keeps the
// plugin from choosing there, the gateway balances in the adopted cluster.
func (s *Stream) leaveAdopted() Action {
	o, v, from := s.outer, s.plugin.vm, s.region.to
	o.inside, o.settled, s.settled = nil, false, true // it is counted at home
	o.body, o.wait.queued = s.body, o.wait.queued || s.wait.queued
	s.done()
	h := v.regions.of(o.cfg)
	peers := h.board.Config().Peers
	peer := slices.IndexFunc(peers, func(p region.Peer) bool { return p.Name == from })
	v.regions.note(h.board.See(v.ReadClock(), peer, region.State{}))
	o.recall()
	o.region = forwarding{from: o.region.from, returns: o.region.returns + 1}
	if o.lease.store == nil { // it had no plan: nothing at home was healthy
		return o.planAnew()
	}
	o.enter(phaseReserving)
	o.lease.open(o.cluster)
	return o.replan()
}

// planAnew plans and reserves for a request that had no plan.
func (s *Stream) planAnew() Action {
	view, why := s.plugin.vm.views.of(s.plugin.vm.now(), s.scope, s.cfg), lb.ReasonNoEndpoints
	if view != nil {
		why = s.makePlan(s.plugin.vm.now(), view)
	}
	if why != lb.ReasonChosen {
		return s.pass(why)
	}
	return s.reserve()
}

// isAdopted reports whether this is the choice of an adopted server.
func (s *Stream) isAdopted() bool { return s.outer != nil && s.region.to != "" }
