package placement

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/gains"
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
	Redis       *stores.Redis // of which that store is the FallbackStore, nil for the local store
	Reservation reservation
	plannedAt   time.Duration // when the plan was made
	GrantedAt   time.Duration // when an endpoint was granted for which the request had to wait, 0 without a wait
	Chosen      string        // the endpoint, or the cluster, that was chosen
	Load        int64         // requests in flight there, this one included
	Addr        string        // the endpoint, or the cluster, at which the lease counts
	SteeredAt   time.Duration // when the request was sent to a cluster, 0 if none was chosen
	Tokens      int64         // that it counts for
	overflows   int           // how often it did not fit into the cluster that was granted
	answering   bool          // it is among those that the endpoint is answering
	Budget      budgetUse     // what it was charged, for token_budget
	flight      gains.ID      // by which what is gained follows it
}

// reservation is what a request wants of its store, and the store's answer.
type reservation struct {
	pending
	Request   lb.Request // what the policy knows of it
	Plan      lb.Plan
	view      *lb.View      // that the plan was made of
	Reason    lb.Reason     // to count when an endpoint is chosen
	startedAt time.Duration // 0 if its duration is not measured
}

// open counts the request among those of this VM, at a cluster and in the store of the lease.
func (l *lease) open(cl *clusters.Cluster) {
	l.cluster = cl
	cl.Inflight++
	if l.Redis != nil {
		l.Redis.Inflight++
	}
}

// Now returns the time. A store in Redis counts deadlines from it, and every store waits and refills budgets, so it has
// to be right.
func (l *lease) Now() time.Duration {
	if p := &l.Reservation.Plan; l.Redis != nil || p.Wait.Waits() || p.HasBudget() {
		return l.ReadClock()
	}
	return l.Clock()
}

// amend changes for how many tokens the lease counts, and at which endpoint unless addr is "".
func (l *lease) amend(addr string, tokens int64) {
	l.Tokens = tokens
	l.store.Amend(l.Now(), l.Reservation.id, addr, tokens)
}

// trackResponse counts the response, from its begin to its end, at the endpoint that answers.
func (l *lease) trackResponse(begun bool) {
	if begun != l.answering {
		l.answering = begun
		l.cluster.CountResponse(lb.ServerOf(l.Addr), begun)
	}
}

// forgetPrompt removes the record that the endpoint at which the lease counts has the prompt, but for its first n
// blocks.
func (l *lease) forgetPrompt(n int) {
	if len(l.Reservation.Plan.Prefix.Blocks) > 0 && l.Addr != "" {
		l.store.ForgetPrompt(l.Now(), l.Reservation.id, &l.Reservation.Plan, l.Addr, n)
	}
}

// recordPrompt records that the endpoint at which the lease counts has the prompt.
func (l *lease) recordPrompt() {
	if len(l.Reservation.Plan.Prefix.Blocks) > 0 {
		l.store.RecordPrompt(l.Now(), l.Reservation.id, &l.Reservation.Plan, l.Addr)
	}
}

// close removes the request from those that this VM counts.
func (l *lease) close() {
	l.trackResponse(false)
	l.cluster.Inflight--
	if l.Redis != nil {
		l.Redis.Inflight--
	}
}

// isGone reports whether an endpoint has left, or become unusable, while Redis decided or the request waited: a gateway
// may fail a request that is sent there all the same.
func (l *lease) isGone(addr string, c *config.Config, from *views.Views) bool {
	queued := l.Reservation.Grant.Queued
	if l.Redis == nil && !queued {
		return false
	}
	if health := clusters.HealthOf(c); queued && l.cluster.Health.EjectedSince(l.plannedAt, l.Clock(), addr, &health) {
		return true
	}
	view := from.Of(l.Clock(), l.cluster.Name, c)
	if view == l.Reservation.view {
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
