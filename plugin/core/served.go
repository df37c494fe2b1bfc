package core

import "github.com/warmgate/warmgate/lb"

// followServed moves the lease to the endpoint that really serves: after a retry, or when the gateway routed natively.
//
// That endpoint has the prompt from now on, and the chosen one may not have it, so it is recorded where it is. In
// shadow mode that makes records come true although the gateway chooses: the endpoint that would have been chosen keeps
// what it had.
//
// What the chosen endpoint did is not reported: it may have failed, or have been full and answered 503. So it loses
// weight, and is ejected only if that continues for long. An address that no endpoint has means nothing: an endpoint
// with a host name, or with several addresses, may be reached under another one than is listed.
func (s *Stream) followServed() {
	served := s.servedBy()
	s.response.reached = s.response.reached || served != ""
	if s.misrouted(served) || served == "" || served == s.lease.addr || !s.lease.lists(served) {
		return
	}
	v, r := s.plugin.vm, &s.lease.reservation
	now := v.now()
	had := 0
	if s.cfg.Shadow {
		had = r.grant.Cached
	}
	if !s.held.asked {
		s.lease.forgetPrompt(had)
	}
	s.lease.amend(served, r.plan.AddedTokens(0))
	s.moveCharge(served)
	if !s.cfg.Shadow {
		v.stats.count(statMoves, 1)
		moved := lb.Outcome{}
		s.completeOutcome(now, lb.Retried, &moved)
		s.policy.Observe(now, moved)
	}
	s.lease.addr = served
	if !s.held.asked { // elsewhere is nothing of what it refers to
		s.lease.recordPrompt()
	}
}

// lists reports whether the address is one of the cluster's endpoints, or the cluster one of those chosen among.
func (l *lease) lists(addr string) bool { return lists(l.reservation.view, addr) }

// misrouted reports whether another cluster serves the request than the one that it was planned on: a filter behind the
// plugin has changed the route, or one in front of it whose change Envoy had not looked at yet. The lease is released,
// and nothing that happens to the request counts for the endpoint that it was meant for.
//
// Reading the cluster's name costs a call of the gateway, so it is done only where another endpoint serves than the one
// at which the lease counts.
func (s *Stream) misrouted(served string) bool {
	if served == "" || served == s.lease.addr {
		return false
	}
	if s.cfg.AmongClusters() {
		if s.lease.lists(served) {
			return false
		}
	} else if cluster := s.Cluster(); cluster == "" || cluster == s.scope {
		return false
	}
	s.lease.forgetPrompt(0)
	s.requestGone()
	s.noteUnserved()
	s.release()
	s.lease.addr = served
	s.plugin.vm.stats.count(statMisrouted, 1)
	return true
}
