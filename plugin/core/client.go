package core

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file is whom a request is from, as far as the health of endpoints depends on it: what one client sends must
// not be held against an endpoint that serves the others.

// completeOutcome completes the outcome of a request for the health of the endpoint. Who the client is costs a call into the
// gateway, so it is only read when it matters.
func (s *Stream) completeOutcome(now time.Duration, verdict lb.Verdict, o *lb.Outcome) {
	o.Addr, o.Verdict = s.addr, verdict
	if verdict == lb.TimedOut {
		o.WaitedFor = now - s.asked
	}
	o.Busy = s.cluster.answering[s.addr] > 0
	if verdict > lb.Success || s.cluster.health.NeedsClient(now) {
		o.Client = s.clientID()
	}
	o.Model = s.modelID()
	if s.chain != nil {
		o.Source = s.chain.source()
	}
}

// trackResponse keeps count of the responses that have begun and not ended, by endpoint: one that answers somebody is
// alive. A response whose lease has been returned is somebody else's.
func (s *Stream) trackResponse(begun bool) {
	if begun == s.counted || begun && s.phase != phaseLeased {
		return
	}
	s.counted = begun
	s.cluster.countResponse(s.addr, begun)
}

// clientID returns the same number for all requests of one client, 0 if nothing is known of it: by the tenant where the
// configuration names a header for it, else by the address, of IPv6 the first 64 bits.
func (s *Stream) clientID() uint64 {
	if h := s.cfg.Prefix.TenantHeader; h != "" && s.traits.known {
		if tenant := s.traits.header(h); tenant != "" {
			return xxhash.Sum64String("tenant " + tenant)
		}
	}
	addr := s.Client()
	if addr == "" {
		return 0
	}
	return xxhash.Sum64String("client " + config.Network(addr))
}

// modelID returns the same number for all requests for one model, 0 if it is not known.
func (s *Stream) modelID() uint64 {
	switch {
	case s.work.model.model != 0:
		return s.work.model.model
	case s.model != "":
		return xxhash.Sum64String(s.model)
	}
	return 0
}
