package core

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// Whom a request is from matters for the health of endpoints: what one client sends must not count against an endpoint
// that serves the others.

// completeOutcome completes the outcome of a request for the health of the endpoint. Reading the client costs a call
// into the gateway, so it is done only when it matters.
func (s *Stream) completeOutcome(now time.Duration, verdict lb.Verdict, o *lb.Outcome) {
	o.Addr, o.Verdict = s.lease.addr, verdict
	if verdict == lb.TimedOut {
		o.WaitedFor = now - s.body.sentAt()
	}
	o.Busy = s.cluster.answering[s.lease.addr] > 0
	if verdict > lb.Success || s.cluster.health.NeedsClient(now) {
		o.Client = s.clientID()
	}
	o.Model = s.modelID()
	if s.chain != nil {
		o.Source = s.chain.source()
	}
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
	case s.facts.inPath != 0: // engines with such paths read no other one
		return s.facts.inPath
	case s.work.model.model != 0:
		return s.work.model.model
	case s.metrics.model != "":
		return xxhash.Sum64String(s.metrics.model)
	}
	return s.facts.model
}
