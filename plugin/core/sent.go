package core

import (
	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stats"
)

// This file is what is noted when a request was sent to where it is counted.

// settle returns the reason to count for a request that was sent to where it is counted.
func (s *serving) settle() lb.Reason {
	pl := s.pl
	r := &pl.lease.reservation
	if pl.Config.Shadow {
		r.reason = lb.ReasonShadow
	}
	r.reason = pl.State.Placed(r.reason, r.grant.Cached)
	s.sessionPlaced()
	return r.reason
}

// sent notes that the request was sent to where it is counted.
func (s *serving) sent() {
	pl := s.pl
	pl.wait.countPlaced()
	s.requestPlaced()
	if w := &pl.Prompt.Work; w.Open && w.Seen > 0 {
		pl.Body.Track(w, pl.driver)
	}
	if pl.Body.EndedAt > 0 {
		pl.amendWork() // the end of the body has come while the store decided
	}
}

// requestPlaced notes for health, rate_limit and metrics that the request is at the chosen endpoint, and requests a
// load report from it.
func (s *serving) requestPlaced() {
	pl := s.pl
	l := &pl.lease
	if pl.Idle() {
		return
	}
	if !pl.Config.Shadow { // else the gateway has chosen
		pl.Cluster.Health.ObserveGrant(&l.reservation.plan, l.reservation.grant.Index, l.reservation.grant.Load)
		pl.Cluster.Shares.Count(pl.shared.Clock(), l.chosen)
		if pl.Cluster.Metrics.Needed() {
			pl.Metrics.Adapter = pl.Cluster.Engines.AddRequest(pl.Metrics.Model, l.chosen, l.tokens)
		}
	}
	pl.Metrics.WantReport(pl.Gateway, &pl.Traits, pl.Config)
}

// sessionPlaced counts a request that was placed by whether it is where its session belongs.
func (s *serving) sessionPlaced() {
	pl := s.pl
	if !pl.Config.ReadsSession() {
		return
	}
	order, result := pl.lease.reservation.plan.Home.Order, request.Displaced
	switch {
	case pl.Session.Key == 0:
		result = request.NoSession
	case len(order) > 0 && int(order[0]) == pl.lease.reservation.grant.Index:
		result = request.AtHome
	}
	pl.Session.Result = result
	pl.shared.Stats.CountIf(statname.With(stats.Sessions, "cluster", pl.Cluster.Name, "result", result), 1)
}
