package placement

import (
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/stats"
)

// Whom a request is from matters for the health of endpoints: what one client sends must not count against an endpoint
// that serves the others.

// judging is what the end of a request means for what has served it.
type judging struct {
	of     *basis
	Result string // of the request by its end, "" before: served, failed, or other
}

// completeOutcome completes the outcome of a request for the health of the endpoint. Reading the client costs a call
// into the gateway, so it is done only when it matters.
func (j *judging) completeOutcome(now time.Duration, verdict lb.Verdict, o *lb.Outcome) {
	of := j.of
	o.Addr, o.Verdict = of.Lease.Addr, verdict
	if verdict == lb.TimedOut {
		o.WaitedFor = now - of.SentAt()
	}
	o.Busy = of.Cluster.Answering[lb.ServerOf(of.Lease.Addr)] > 0
	if verdict > lb.Success || of.Cluster.Health.NeedsClient(now) {
		o.Client = j.clientID()
	}
	o.Model = of.Facts.ModelID()
	if of.Prompt.Chain != nil {
		o.Source = of.Prompt.Chain.Source()
	}
}

// clientID returns the same number for all requests of one client, 0 if nothing is known of it: by the tenant where the
// configuration names a header for it, else by the address, of IPv6 the first 64 bits.
func (j *judging) clientID() uint64 {
	of := j.of
	if h := of.Config.Prefix.TenantHeader; h != "" && of.Traits.Known {
		if tenant := of.Traits.Header(h); tenant != "" {
			return xxhash.Sum64String("tenant " + tenant)
		}
	}
	addr := of.Gateway.Client()
	if addr == "" {
		return 0
	}
	return xxhash.Sum64String("client " + config.Network(addr))
}

// resultOf returns what a verdict means for those who look at requests.
func resultOf(v lb.Verdict) string {
	switch v {
	case lb.Success:
		return "served"
	case lb.Neutral, lb.Rejected:
		return "other"
	}
	return "failed"
}

// measureCluster puts into the outcome how long a cluster has taken, and counts the request among those of the cluster.
func (j *judging) measureCluster(o *lb.Outcome) {
	of := j.of
	l := &of.Lease
	if l.SteeredAt == 0 {
		return
	}
	if of.Computes() {
		o.Whole = max(1, of.Shared.ReadClock()-l.SteeredAt)
		if of.Response.BegunAt > 0 {
			o.FirstPart = max(1, of.Response.BegunAt-l.SteeredAt)
		}
		if l.Addr == l.Chosen {
			o.Inflight = l.Reservation.Grant.Load.Requests
		}
	}
	of.Shared.Stats.CountIf(statname.With(stats.Clusters, "cluster", l.Addr, "result", j.Result), 1)
}
