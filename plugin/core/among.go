package core

// This file is what is different for a request that is sent to one of several clusters (lb_type cluster): its route
// takes the cluster by a header, the cluster that serves it is found by name, and what only the gateway has refused may
// be the cluster's fault.

// steering is where a request is sent: to an endpoint or a cluster that was chosen, or where the gateway likes.
type steering struct{ of *basis }

// send sends the request to what was chosen.
func (s *steering) send() error {
	l, to := &s.of.lease, s.of.Gateway
	r := &l.reservation
	if !s.of.Config.AmongClusters() {
		return to.Steer(l.chosen, others(&r.plan, r.grant.Index))
	}
	l.steeredAt = l.ReadClock()
	to.Unsteer()
	to.SetCluster(s.of.Config.Clusters.Header, l.chosen)
	return nil
}

// leaveToGateway leaves the request to the gateway.
func (s *steering) leaveToGateway() {
	s.of.Gateway.Unsteer()
	if c := s.of.Config; c != nil && c.AmongClusters() && s.of.lease.steeredAt > 0 {
		s.of.Gateway.SetCluster(c.Clusters.Header, "")
	}
}
