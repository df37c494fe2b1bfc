package placement

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Serving is who serves a request, and what its answer shows.
type Serving struct {
	Of *Placement
	// Measures: this is the last choice of a request that is measured, and so the one that it is measured by
	Measures bool
	counted  bool // its end was counted where it was served
	Refused  int  // status with which the plugin has answered in a server's place, 0 if it has not
}

// followServed moves the lease to the endpoint that really serves: after a retry, or when the gateway routed natively.
//
// That endpoint has the prompt from now on, and the chosen one may not have it, so it is recorded where it is. In
// shadow mode that makes records come true although the gateway chooses: the endpoint that would have been chosen keeps
// what it had.
//
// What the chosen endpoint did is not reported: it may have failed, or have been full and answered 503. So it loses
// weight, and is ejected only if that continues for long. An address that no endpoint has means nothing: an endpoint
// with a host name, or with several addresses, may be reached under another one than is listed.
func (s *Serving) followServed() {
	pl := s.Of
	served := s.server()
	pl.Response.Reached = pl.Response.Reached || served != ""
	if s.misrouted(served) || served == "" || served == pl.Lease.Addr || !pl.Lease.lists(served) {
		return
	}
	v, r := pl.Shared, &pl.Lease.Reservation
	now := v.Clock()
	had := 0
	if pl.Config.Shadow {
		had = r.Grant.Cached
	}
	if !pl.Kept.Asked {
		pl.Lease.forgetPrompt(had)
	}
	pl.Lease.amend(served, r.Plan.AddedTokens(0))
	pl.Lease.moveCharge(served)
	if !pl.Config.Shadow {
		v.Stats.Count(stats.Moves, 1)
		moved := lb.Outcome{}
		pl.Judge.completeOutcome(now, lb.Retried, &moved)
		pl.policy.Observe(now, moved)
	}
	pl.Lease.Addr = served
	if !pl.Kept.Asked { // elsewhere is nothing of what it refers to
		pl.Lease.recordPrompt()
	}
}

// ServesAsChosen reports whether the endpoint serves the request that was chosen for it here.
func (s *Serving) ServesAsChosen() bool {
	pl := s.Of
	return pl.Lease.Chosen != "" && pl.Lease.Addr == pl.Lease.Chosen && isFollowed(&pl.basis)
}

// lists reports whether the address is one of the cluster's endpoints, or the cluster one of those chosen among.
func (l *lease) lists(addr string) bool { return lists(l.Reservation.view, addr) }

// misrouted reports whether another cluster serves the request than the one that it was planned on: a filter behind the
// plugin has changed the route, or one in front of it whose change Envoy had not looked at yet. The lease is released,
// and nothing that happens to the request counts for the endpoint that it was meant for.
//
// Reading the cluster's name costs a call of the gateway, so it is done only where another endpoint serves than the one
// at which the lease counts.
func (s *Serving) misrouted(served string) bool {
	pl := s.Of
	if served == "" || served == pl.Lease.Addr {
		return false
	}
	if pl.Config.AmongClusters() {
		if pl.Lease.lists(served) {
			return false
		}
	} else if cluster := pl.routedTo(); cluster == "" || cluster == pl.Scope {
		return false
	}
	pl.Lease.forgetPrompt(0)
	pl.Metrics.Gone(pl.Cluster, pl.Lease.Chosen)
	pl.Wait.noteUnserved()
	pl.Release()
	pl.Lease.Addr = served
	pl.Shared.Stats.Count(stats.Misrouted, 1)
	return true
}

// routedTo returns the cluster that the request is routed to: inside a choice the one that was chosen, or that has
// served in its place.
func (b *basis) routedTo() string {
	if b.Within != nil {
		return *b.Within
	}
	return b.Gateway.Cluster()
}

// server returns which candidate, or which else, serves the request, "" before one does: an address, or a cluster.
// The gateway may report a cluster that is made of others in their place: then the address decides, which is that of an
// endpoint of one of the candidates.
func (s *Serving) server() string {
	pl := s.Of
	served := pl.Gateway.ServedBy()
	if !pl.Config.AmongClusters() {
		if rank, is := lb.RankOf(pl.Lease.Chosen); is && served != "" {
			return lb.RankAddr(served, rank) // a retry names the same
		}
		return served
	}
	if served == "" {
		return ""
	}
	in, reported := &pl.Config.Clusters, pl.Gateway.Cluster()
	holds := func(name string) bool {
		v := pl.Shared
		return lists(v.GW.KnownView(v.Clock(), in.Holds(name), pl.Config), served)
	}
	if holds(reported) {
		return reported
	}
	if i := slices.IndexFunc(in.List, holds); i >= 0 {
		return in.List[i]
	}
	return reported
}

// lists reports whether the address is one of the view's endpoints, or of the servers whose ranks these are.
func lists(v *lb.View, addr string) bool {
	return v != nil && slices.ContainsFunc(v.Endpoints, func(e lb.Endpoint) bool { return lb.ServerOf(e.Addr) == addr })
}
