package core

import (
	"github.com/warmgate/warmgate/plugin/placement"
)

// This file is how a request is sent to what was chosen: an endpoint by its address, or a cluster by a header, from
// which its route takes it (lb_type cluster).

// steering is where a request is sent: to an endpoint or a cluster that was chosen, or where the gateway likes.
type steering struct{ of *placement.Placement }

// send sends the request to what was chosen.
func (s *steering) send() error {
	l, to := &s.of.Lease, s.of.Gateway
	if !s.of.Config.AmongClusters() {
		return to.Steer(l.Chosen, s.of.Others())
	}
	l.SteeredAt = l.ReadClock()
	to.Unsteer()
	to.SetCluster(s.of.Config.Clusters.Header, l.Chosen)
	return nil
}

// leaveToGateway leaves the request to the gateway.
func (s *steering) leaveToGateway() {
	s.of.Gateway.Unsteer()
	if c := s.of.Config; c != nil && c.AmongClusters() && s.of.Lease.SteeredAt > 0 {
		s.of.Gateway.SetCluster(c.Clusters.Header, "")
	}
}
