package fakehost

// pick is the router's choice for an attempt: the address that the plugin wants, if it wants one.
func (s *Stream) pick(addr string) *Endpoint {
	c := s.host.Clusters[s.Cluster]
	if addr != "" {
		e := c.Endpoint(addr)
		if e != nil && e.Health != Unhealthy {
			return e
		}
		if s.host.StrictOverride {
			return nil
		}
	}
	return c.native()
}

// routeHeaders is the router: the request's headers arrive at it.
func (s *Stream) routeHeaders(end bool) {
	if reply := s.OnRoute; reply != nil {
		if code := reply(); code != 0 {
			s.Reply(Reply{Code: code, Details: "later_filter"})
			return
		}
	}
	s.Routed = true
	s.Sent = Message{Headers: s.Request.Headers.Clone(), End: end}
	if s.host.Clusters[s.Cluster] == nil {
		s.Reply(Reply{Code: 503, Details: detailsClusterNotFound, Flags: FlagNoClusterFound})
		return
	}
	s.attempt(s.pick(s.Override))
}

// attempt sends the request to an endpoint, or answers for the router if there is none or it cannot be reached.
func (s *Stream) attempt(e *Endpoint) {
	s.Attempts++
	s.endpoint = e
	switch {
	case e == nil:
		s.Reply(Reply{Code: 503, Details: detailsNoHealthy, Flags: FlagNoHealthyUpstream})
	case e.Refuses:
		s.Reply(Reply{Code: 503, Details: detailsConnect, Flags: FlagUpstreamConnect})
	default:
		s.occupy()
	}
}

// occupy has the request come to its endpoint.
func (s *Stream) occupy() {
	e := s.endpoint
	s.Reached, s.OnUpstream = true, true
	e.total++
	e.active++
	e.peak = max(e.peak, e.active)
}

// leaveUpstream ends the request on its endpoint.
func (s *Stream) leaveUpstream() {
	if s.OnUpstream {
		s.OnUpstream = false
		s.endpoint.active--
	}
}
