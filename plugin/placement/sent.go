package placement

import (
	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/request"
	"github.com/warmgate/warmgate/plugin/stats"
)

// This file is what is noted when a request was sent to where it is counted.

// ReasonSent returns the reason to count for a request that was sent to where it is counted.
func (s *Serving) ReasonSent() lb.Reason {
	pl := s.Of
	r := &pl.Lease.Reservation
	if pl.Config.Shadow {
		r.Reason = lb.ReasonShadow
	}
	r.Reason = pl.Kept.Placed(r.Reason, r.Grant.Cached)
	s.sessionPlaced()
	return r.Reason
}

// Sent notes that the request was sent to where it is counted.
func (s *Serving) Sent() {
	pl := s.Of
	pl.Response.SentAt = pl.Shared.GW.Now()
	pl.Wait.CountPlaced()
	if isFollowed(&pl.basis) {
		pl.Cluster.Flights.Sent(pl.Response.SentAt, &pl.Lease.flight, pl.Lease.Chosen)
	}
	s.requestPlaced()
	if w := &pl.Prompt.Work; w.Open && w.Seen > 0 {
		pl.Body.Track(w, pl.driver)
	}
	if pl.Body.EndedAt > 0 {
		pl.AmendWork() // the end of the body has come while the store decided
	}
}

// requestPlaced notes for health, rate_limit and metrics that the request is at the chosen endpoint, and requests a
// load report from it.
func (s *Serving) requestPlaced() {
	pl := s.Of
	l := &pl.Lease
	if pl.Idle() {
		return
	}
	if !pl.Config.Shadow { // else the gateway has chosen
		pl.Cluster.Health.ObserveGrant(&l.Reservation.Plan, l.Reservation.Grant.Index, l.Reservation.Grant.Load)
		pl.Cluster.Shares.Count(pl.Shared.Clock(), l.Chosen)
		if pl.Config.KeepsModels() {
			pl.Cluster.Facts.Placed(pl.Shared.Clock(), l.Reservation.Request.ModelName)
		}
		if pl.Cluster.Metrics.Needed() {
			pl.Metrics.Adapter = pl.Cluster.Engines.AddRequest(pl.Metrics.Model, l.Chosen, l.Tokens)
		}
	}
	pl.Metrics.WantReport(pl.Gateway, &pl.Traits, pl.Config)
}

// sessionPlaced counts a request that was placed by whether it is where its session belongs.
func (s *Serving) sessionPlaced() {
	pl := s.Of
	if !pl.Config.PlacesSessions() {
		return
	}
	order, result := pl.Lease.Reservation.Plan.Home.Order, request.Displaced
	switch {
	case pl.Session.Key == 0:
		result = request.NoSession
	case len(order) > 0 && int(order[0]) == pl.Lease.Reservation.Grant.Index:
		result = request.AtHome
	}
	pl.Session.Result = result
	pl.Shared.Stats.CountIf(statname.With(stats.Sessions, "cluster", pl.Cluster.Name, "result", result), 1)
}
