package core

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/stores"
	"github.com/warmgate/warmgate/plugin/views"
)

// lease is where a request is counted, and how it came to be.
type lease struct {
	*host.Env
	cluster     *clusters.Cluster // nil before the request is counted
	store       lb.Store
	redis       *stores.Redis // of which that store is the FallbackStore, nil for the local store
	reservation reservation
	plannedAt   time.Duration // when the plan was made
	grantedAt   time.Duration // when an endpoint was granted for which the request had to wait, 0 without a wait
	chosen      string        // the endpoint, or the cluster, that was chosen
	load        int64         // requests in flight there, this one included
	addr        string        // the endpoint, or the cluster, at which the lease counts
	steeredAt   time.Duration // when the request was sent to a cluster, 0 if none was chosen
	tokens      int64         // that it counts for
	overflows   int           // how often it did not fit into the cluster that was granted
	answering   bool          // it is among those that the endpoint is answering
	budget      budgetUse     // what it was charged, for token_budget
}

// reservation is what a request wants of its store, and the store's answer.
type reservation struct {
	claim
	request   lb.Request // what the policy knows of it
	plan      lb.Plan
	view      *lb.View      // that the plan was made of
	reason    lb.Reason     // to count when an endpoint is chosen
	startedAt time.Duration // 0 if its duration is not measured
}

// open counts the request among those of this VM, at a cluster and in the store of the lease.
func (l *lease) open(cl *clusters.Cluster) {
	l.cluster = cl
	cl.Inflight++
	if l.redis != nil {
		l.redis.Inflight++
	}
}

// now returns the time. A store in Redis counts deadlines from it, and every store waits and refills budgets, so it has
// to be right.
func (l *lease) now() time.Duration {
	if p := &l.reservation.plan; l.redis != nil || p.Wait.Waits() || p.HasBudget() {
		return l.ReadClock()
	}
	return l.Clock()
}

// amend changes for how many tokens the lease counts, and at which endpoint unless addr is "".
func (l *lease) amend(addr string, tokens int64) {
	l.tokens = tokens
	l.store.Amend(l.now(), l.reservation.id, addr, tokens)
}

// trackResponse counts the response, from its begin to its end, at the endpoint that answers.
func (l *lease) trackResponse(begun bool) {
	if begun != l.answering {
		l.answering = begun
		l.cluster.CountResponse(l.addr, begun)
	}
}

// forgetPrompt removes the record that the endpoint at which the lease counts has the prompt, but for its first n
// blocks.
func (l *lease) forgetPrompt(n int) {
	if len(l.reservation.plan.Prefix.Blocks) > 0 && l.addr != "" {
		l.store.ForgetPrompt(l.now(), l.reservation.id, &l.reservation.plan, l.addr, n)
	}
}

// recordPrompt records that the endpoint at which the lease counts has the prompt.
func (l *lease) recordPrompt() {
	if len(l.reservation.plan.Prefix.Blocks) > 0 {
		l.store.RecordPrompt(l.now(), l.reservation.id, &l.reservation.plan, l.addr)
	}
}

// close removes the request from those that this VM counts.
func (l *lease) close() {
	l.trackResponse(false)
	l.cluster.Inflight--
	if l.redis != nil {
		l.redis.Inflight--
	}
}

// isGone reports whether an endpoint has left, or become unusable, while Redis decided or the request waited: a gateway
// may fail a request that is sent there all the same.
func (l *lease) isGone(addr string, c *config.Config, from *views.Views) bool {
	queued := l.reservation.grant.Queued
	if l.redis == nil && !queued {
		return false
	}
	if health := clusters.HealthOf(c); queued && l.cluster.Health.EjectedSince(l.plannedAt, l.Clock(), addr, &health) {
		return true
	}
	view := from.Of(l.Clock(), l.cluster.Name, c)
	if view == l.reservation.view {
		return false
	}
	if view != nil {
		for i := range view.Endpoints {
			if e := &view.Endpoints[i]; e.Addr == addr {
				// a circuit breaker that is open by now may have been opened by this very request
				return e.State != lb.Healthy && e.State != lb.Degraded && !(c.AmongClusters() && e.State == lb.Ejected)
			}
		}
	}
	return true
}
