package core

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// Whom a request is from matters for the health of endpoints: what one client sends must not count against an endpoint
// that serves the others.

// judging is what the end of a request means for what has served it.
type judging struct{ pl *placement }

// completeOutcome completes the outcome of a request for the health of the endpoint. Reading the client costs a call
// into the gateway, so it is done only when it matters.
func (j *judging) completeOutcome(now time.Duration, verdict lb.Verdict, o *lb.Outcome) {
	pl := j.pl
	o.Addr, o.Verdict = pl.lease.addr, verdict
	if verdict == lb.TimedOut {
		o.WaitedFor = now - pl.sentAt()
	}
	o.Busy = pl.cluster.answering[pl.lease.addr] > 0
	if verdict > lb.Success || pl.cluster.health.NeedsClient(now) {
		o.Client = j.clientID()
	}
	o.Model = j.modelID()
	if pl.prompt.chain != nil {
		o.Source = pl.prompt.chain.source()
	}
}

// clientID returns the same number for all requests of one client, 0 if nothing is known of it: by the tenant where the
// configuration names a header for it, else by the address, of IPv6 the first 64 bits.
func (j *judging) clientID() uint64 {
	pl := j.pl
	if h := pl.cfg.Prefix.TenantHeader; h != "" && pl.traits.known {
		if tenant := pl.traits.header(h); tenant != "" {
			return xxhash.Sum64String("tenant " + tenant)
		}
	}
	addr := pl.Client()
	if addr == "" {
		return 0
	}
	return xxhash.Sum64String("client " + config.Network(addr))
}

// modelID returns the same number for all requests for one model, 0 if it is not known.
func (j *judging) modelID() uint64 {
	pl := j.pl
	switch {
	case pl.facts.inPath != 0: // engines with such paths read no other one
		return pl.facts.inPath
	case pl.prompt.work.model.Model != 0:
		return pl.prompt.work.model.Model
	case pl.metrics.model != "":
		return xxhash.Sum64String(pl.metrics.model)
	}
	return pl.facts.model
}
