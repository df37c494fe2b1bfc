package core

import (
	"cmp"
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// A request that was forwarded may be served at home after all: the gateway's retry, after the other region has failed,
// goes to this region's servers where the cluster of the peer is an aggregate of both. The gateway chooses then, and
// the request is counted where it is served.

// isForwarded reports whether the request was sent to the gateways of another region.
func (s *Stream) isForwarded() bool { return s.region.to != "" && s.inside == nil && s.outer == nil }

// followHome counts a forwarded request that one of this region's own servers answers.
func (s *Stream) followHome() {
	if !s.isForwarded() || s.phase != phaseUncounted {
		return
	}
	v, rules, r := s.plugin.vm, &s.cfg.Regions, &s.lease.reservation
	served := s.ServedBy()
	view := v.gw.KnownView(v.now(), s.scope, s.cfg)
	if view == nil {
		view = r.view
	}
	if served == "" || !lists(view, served) {
		return
	}
	r.view = view
	prompt, to := s.promptToForward(), s.region.to
	peer := slices.IndexFunc(rules.Peers, func(p config.Peer) bool { return p.Name == to })
	if h := v.regions.of(s.cfg); prompt.NeedsLookup() {
		h.snapshot.Forget(&prompt, &h.board.Config().Peers[peer], s.region.had)
	}
	s.countAt(served, &prompt)
	s.region.returned = true
	v.stats.countIf(statCameHome+";region="+to, 1)
	s.SetNote(s.describe() + s.wait.text())
}

// countAt counts the request at an endpoint that the gateway has chosen, full or not.
func (s *Stream) countAt(addr string, prompt *lb.Prefix) {
	v, l := s.plugin.vm, &s.lease
	r := &l.reservation
	if l.store == nil { // it had no plan
		l.store, l.redis = v.stores.of(s.cfg)
	}
	now := v.ReadClock()
	l.plannedAt = cmp.Or(l.plannedAt, now)
	r.plan = lb.Plan{
		Scope: s.scope, Unit: r.plan.Unit, Random: r.request.Random, Prefix: *prompt,
		Candidates: []lb.Candidate{{Addr: addr, Weight: 1}},
		Tokens:     cmp.Or(r.plan.Tokens, r.request.PromptTokens+r.request.OutputTokens),
	}
	id := v.stores.nextID()
	l.id, l.addr, l.tokens, r.grant = id, addr, r.plan.AddedTokens(0), lb.Grant{}
	l.open(s.cluster)
	s.enter(phaseLeased)
	l.store.Reserve(now, id, &r.plan, func(g lb.Grant, err error) {
		if err == nil && l.id == id && s.phase == phaseLeased {
			r.grant, l.load, l.tokens = g, g.Load.Requests, r.plan.AddedTokens(g.Cached)
		}
	})
}
