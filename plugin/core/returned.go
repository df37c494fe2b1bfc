package core

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
)

// What becomes of a request that was forwarded is noted on the board, whoever ends it: a region that fails what it says
// it has room for must not take the requests of this one past their queue.
//
// Such a request may be served at home after all: the gateway's retry, after the other region has failed, goes to this
// region's servers where the cluster of the peer is an aggregate of both. The gateway chooses then, and the request is
// counted where it is served.

// isForwarded reports whether the request was sent to the gateways of another region.
func (s *Stream) isForwarded() bool { return s.region.to != "" && s.inside == nil && s.outer == nil }

// followForwarded is called when the response to a forwarded request has begun.
func (s *Stream) followForwarded() {
	if !s.isForwarded() || s.phase != phaseUncounted {
		return
	}
	served := s.ServedBy()
	s.response.status, _ = strconv.Atoi(s.ResponseHeader(":status"))
	s.response.reached = served != ""
	switch {
	case s.followHome(served):
		s.forwardEnded(false)
	case s.response.reached && s.response.status < 400:
		s.forwardEnded(true)
	default:
		s.forwardFailed()
	}
}

// forwardFailed notes that the other region has failed the request, if that is why it ends like that: what the request
// itself or its client may be to blame for says nothing.
func (s *Stream) forwardFailed() {
	if !s.isForwarded() || s.region.ended {
		return
	}
	if s.response.status == 0 {
		s.response.reached = s.ServedBy() != ""
	}
	switch s.response.verdict(s.plugin.vm.now(), &s.body, s.GatewayStream) {
	case lb.Success, lb.Rejected:
		s.forwardEnded(true)
	case lb.Neutral:
		if isUnreachable(s.Details()) {
			s.forwardEnded(false)
		}
	default:
		s.forwardEnded(false)
	}
}

// forwardEnded notes once whether the other region has served the request. If not, it has not got the prompt.
func (s *Stream) forwardEnded(served bool) {
	if s.region.ended {
		return
	}
	s.region.ended = true
	v, to := s.plugin.vm, s.region.to
	h := v.regions.of(s.cfg)
	peers := h.board.Config().Peers
	peer := slices.IndexFunc(peers, func(p region.Peer) bool { return p.Name == to })
	if prompt := s.promptToForward(); !served && prompt.NeedsLookup() {
		h.snapshot.Forget(&prompt, &peers[peer], s.region.had)
	}
	v.regions.note(h.board.End(v.ReadClock(), peer, s.region.sentAt, served))
}

// followHome counts a forwarded request that one of this region's own servers answers. It returns false if none does.
func (s *Stream) followHome(served string) bool {
	v, r := s.plugin.vm, &s.lease.reservation
	view := v.gw.KnownView(v.now(), s.scope, s.cfg)
	if view == nil {
		view = r.view
	}
	if served == "" || !lists(view, served) {
		return false
	}
	r.view = view
	prompt := s.promptToForward()
	s.countAt(served, &prompt)
	s.region.returned = true
	v.stats.countIf(statname.With(statCameHome, "region", s.region.to), 1)
	s.SetNote(s.describe() + s.wait.text())
	return true
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
