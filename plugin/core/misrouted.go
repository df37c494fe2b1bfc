package core

// misrouted reports whether another cluster serves the request than the one that it was planned on: a filter behind the
// plugin has changed the route, or one in front of it whose change Envoy had not looked at yet. The lease is returned,
// and nothing that happens to the request is taken for the work of the endpoint that it was meant for.
//
// Looking at the cluster's name costs a call of the gateway, so it is done only where another endpoint serves than the
// one that the lease counts at.
func (s *Stream) misrouted(served string) bool {
	if served == "" || served == s.addr {
		return false
	}
	if cluster := s.Cluster(); cluster == "" || cluster == s.scope {
		return false
	}
	s.forgetPrompt(0)
	s.requestGone()
	s.release()
	s.addr = served
	s.plugin.vm.stats.count(statMisrouted, 1)
	return true
}
