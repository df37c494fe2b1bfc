package placement

import (
	"cmp"
	"time"

	"github.com/warmgate/warmgate/plugin/measured"
	"github.com/warmgate/warmgate/plugin/request"
)

// This file is what is measured of a request that is over.

// fill sets m to what is known of the request.
func (s *Serving) fill(m *measured.Request) {
	pl := s.Of
	r := &pl.Response
	*m = measured.Request{
		Policy: pl.Config.Policy, Status: cmp.Or(r.Status, s.Refused), Streamed: r.Streamed, Idle: pl.Idle(),
		Asked: request.Shown{Of: &pl.Subject}.Model(), Parts: r.Outputs,
	}
	s.fillPlace(m)
	if m.Outcome = r.Ending(s.Refused > 0, pl.Gateway.Details); s.Refused == 0 {
		m.Retries = s.retries(m.Outcome)
	}
	m.Tokens = s.tokens()
	if r.IsGood() && m.Outcome != measured.ClientError {
		m.Model = m.Asked
	}
	s.fillTimes(m)
	s.AddWait(m)
	if p := pl.Prompt.Chain; p.HasBlocks() {
		m.Matches, m.Match = true, p.Cached
	}
}

// holds reports whether the request has a lease, or has had one until its end.
func (s *Serving) holds() bool { return s.counted || s.Of.Phase == PhaseLeased }

// fillPlace sets where the request was served, or would have been.
func (s *Serving) fillPlace(m *measured.Request) {
	pl := s.Of
	among := pl.Config.AmongClusters()
	if m.Cluster = pl.Scope; among {
		if m.Cluster = pl.Lease.Addr; m.Cluster == "" {
			m.Cluster = pl.Gateway.Cluster()
		}
	}
	switch {
	case s.Refused > 0:
	case s.holds() && !among:
		m.Endpoint = pl.Lease.Addr
	default:
		m.Endpoint = pl.Gateway.ServedBy()
		pl.Response.Reached = pl.Response.Reached || m.Endpoint != ""
	}
}

// fillTimes sets how long the request has taken, in all and on its way.
func (s *Serving) fillTimes(m *measured.Request) {
	pl := s.Of
	r, began := &pl.Response, pl.Body.BeganAt
	if began == 0 {
		return
	}
	now := pl.Shared.ReadClock()
	m.Duration = max(0, now-began)
	if m.TTFT = pl.Response.TTFTSince(began); m.TTFT == 0 {
		return
	}
	latest := r.LatestAt
	if !r.Counts && (!r.Complete || latest == r.FirstAt) {
		latest = now
	}
	if m.Retries == 0 { // else an attempt that has failed is in it, which says nothing of who has answered
		m.Prefill = max(1, r.FirstAt-cmp.Or(r.SentAt, began))
	}
	m.Decode = max(0, latest-r.FirstAt)
	if n := m.Tokens.Completion(); n > 1 {
		m.PerToken = m.Decode / time.Duration(n-1)
	}
	m.GapP99 = r.Gaps.Quantile(0.99)
}

// AddWait adds to m how long the request has waited for this choice, and in which class.
func (s *Serving) AddWait(m *measured.Request) {
	pl := s.Of
	m.Wait += pl.Wait.waited
	if pl.Wait.Class != nil && m.Class == "" {
		m.Class = pl.Wait.Class.Name
	}
}

// retries returns how often the gateway has sent the request again. Reading that costs a call, so it is only done where
// it may have: another endpoint serves than was chosen, there is only one, the gateway has chosen, or it has failed.
func (s *Serving) retries(o measured.Outcome) int {
	pl := s.Of
	l := &pl.Lease
	moved := s.counted && l.Addr != l.Chosen
	if s.counted && !moved && o == measured.OK && len(l.Reservation.Plan.Candidates) > 1 {
		return 0
	}
	if n := pl.Gateway.Attempts(); n > 0 {
		return n - 1 // 0 also where the endpoint has changed before the first one
	}
	if moved && !pl.Config.Shadow {
		return 1 // of a gateway that does not say
	}
	return 0
}
