package core

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/statname"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/stats"
)

// queueUse is what a VM knows of the queue of a cluster.
type queueUse struct {
	config     *config.Config // under which a request came last, nil for none yet
	store      lb.Store       // of that request
	redis      *redisStore    // if that is one in Redis
	candidates []lb.Candidate // of that request
	tokens     int64          // that it adds where nothing of its prompt is cached
	stats      lb.QueueStats  // over all owners, at the latest heartbeat or refusal
	running    int64          // requests in flight at that time, 0 if that is not known or not needed
	readAt     time.Duration  // when that was
	refusedAt  time.Duration  // when one was refused last for want of room
	pressure   admission.Pressure
	classes    map[string]uint16  // ids of those that have a gauge, by name
	inflight   map[string]lb.Load // in Redis, by endpoint, as far as asked
	askedAt    time.Duration      // when that was
}

// usesQueue notes that a request of the cluster may wait.
func (w *waiting) usesQueue() {
	pl := w.pl
	q, l := &pl.cluster.queue, &pl.lease
	q.config, q.store, q.redis, q.candidates = pl.cfg, l.store, l.redis, l.reservation.plan.Candidates
	if pl.computes() {
		q.tokens = l.reservation.plan.AddedTokens(0)
	}
}

// overloaded reports whether requests wait in the cluster, or were refused lately.
func (cl *cluster) overloaded(now time.Duration) bool {
	refused := cl.queue.refusedAt > 0 && now-cl.queue.refusedAt < retrySeconds*time.Second
	return refused || cl.waiting > 0 || cl.queue.stats.Waiting > 0
}

// readPeriod is how often the statistics of a queue are read at most to refuse requests.
const readPeriod = 100 * time.Millisecond

// expected returns the time in which all that wait now are likely to be placed, at least what the store expects for the
// request, which is 0 if that is not known. As long as too few were granted an endpoint to know how fast that goes,
// what is in flight is taken to last as long as answers so far, or as clients are told to wait, whichever is longer.
func (w *waiting) expected(now, atLeast time.Duration) time.Duration {
	pl := w.pl
	cl := pl.cluster
	q := &cl.queue
	if q.config != nil && now-q.readAt >= readPeriod {
		pl.plugin.vm.gauges.readQueue(now, cl)
	}
	waiting := max(q.stats.Waiting, cl.waiting)
	switch {
	case q.stats.Interval > 0 && atLeast > 0:
		return atLeast
	case q.stats.Interval > 0:
		return time.Duration(waiting+1) * q.stats.Interval
	case waiting == 0 || pl.lease.reservation.plan.HasBudget():
		return atLeast
	}
	each := max(cl.answers.Typical(), pl.cfg.Overload.RetryAfter)
	return max(atLeast, each*time.Duration(waiting+1)/time.Duration(max(q.running, int64(len(q.candidates)), 1)))
}

// readQueue reads the statistics of a cluster's queue, and what is in flight as long as no pace is known.
func (g *gauges) readQueue(now time.Duration, cl *cluster) {
	q := &cl.queue
	q.stats, q.running, q.readAt = q.store.Queue(now, cl.name), 0, now
	if q.stats.Interval > 0 {
		return
	}
	if loads, known := g.loadsOf(cl); known {
		for _, l := range loads {
			q.running += l.Requests
		}
	}
}

// ofClass returns the name of a statistic of a queue's class.
func ofClass(stat string, cl *cluster, class string) string {
	return statname.With(stat, "cluster", cl.name, "class", class)
}

// countPlaced counts a request that was placed.
func (w *waiting) countPlaced() {
	pl, cl := w.pl, w.pl.cluster
	if w.class == nil {
		return
	}
	cl.queue.pressure.Add(pl.plugin.vm.Clock(), w.waited, false)
	if w.queued {
		pl.plugin.vm.Stats.RecordIf(ofClass(stats.QueueWait, cl, w.class.Name), uint64(w.waited.Milliseconds()))
	}
}

// countRefused counts a request that was refused.
func (w *waiting) countRefused(why lb.Reason) {
	pl, cl, now := w.pl, w.pl.cluster, w.pl.plugin.vm.Clock()
	if isBudget(why) {
		pl.plugin.vm.Stats.CountIf(statname.With(stats.BudgetRefusals, "cluster", cl.name, "reason", why.String()), 1)
	}
	if w.class == nil {
		return
	}
	if why != lb.ReasonTenantOverBudget { // which says nothing about the targets
		cl.queue.pressure.Add(now, 0, true)
	}
	cl.retries.failed(now, w.attempt.digest)
	pl.plugin.vm.Stats.CountIf(statname.With(stats.Refusals,
		"cluster", cl.name, "class", w.class.Name, "reason", why.String()), 1)
}

// countLeft counts a request that is over while it waits: its client has left, or the gateway has answered.
func (w *waiting) countLeft() {
	pl, cl, now := w.pl, w.pl.cluster, w.pl.lease.now()
	w.queued, w.waited = true, now-w.since
	cl.queue.pressure.Add(now, w.waited, false)
	cl.retries.failed(now, w.attempt.digest)
	pl.plugin.vm.Stats.CountIf(ofClass(stats.Left, cl, w.class.Name), 1)
}

// answerEnded takes over how long the answer took, or that there was none.
func (j *judging) answerEnded(now time.Duration, verdict lb.Verdict) {
	pl := j.pl
	switch {
	case pl.wait.class == nil || !pl.computes():
	case verdict == lb.Success:
		pl.cluster.answers.Add(now - pl.placedAt())
	case !pl.response.complete:
		pl.cluster.answers.AddIncomplete(now - pl.placedAt())
		pl.cluster.retries.failed(now, pl.wait.attempt.digest)
	}
}

// setQueue sets the gauges of a cluster's queue.
func (g *gauges) setQueue(now time.Duration, cl *cluster) {
	q := &cl.queue
	if q.config == nil {
		return
	}
	g.readQueue(now, cl)
	if q.stats.Waiting == 0 && !g.configs.use(q.config) {
		g.clearQueue(cl)
		q.config, q.classes = nil, nil
		return
	}
	q.showClasses(cl)
	for name, id := range q.classes {
		g.Stats.SetIf(ofClass(stats.Queue, cl, name), uint64(q.stats.ByClass[id]))
	}
	share := q.pressure.Share(now)
	g.Stats.SetIf(stats.OfCluster(stats.Pressure, cl.name), uint64(math.Round(100*share)))
	if n, ok := g.parallelism(cl, share); ok {
		g.Stats.SetIf(stats.OfCluster(stats.Parallelism, cl.name), n)
	}
}

// showClasses adds the classes of all configurations of the cluster to those that have a gauge. Their gauges stay while
// a configuration with a queue is in force.
func (q *queueUse) showClasses(cl *cluster) {
	if q.classes == nil {
		q.classes = map[string]uint16{}
	}
	for c := range cl.policies {
		if !c.Queue.Enabled() {
			continue
		}
		for i := range c.Queue.Classes {
			q.classes[c.Queue.Classes[i].Name] = c.Queue.Classes[i].ID
		}
	}
}

// clearQueue sets the gauges of the queue of a cluster that is about to be forgotten.
func (g *gauges) clearQueue(cl *cluster) {
	names := []string{stats.OfCluster(stats.Pressure, cl.name), stats.OfCluster(stats.Parallelism, cl.name)}
	for class := range cl.queue.classes {
		names = append(names, ofClass(stats.Queue, cl, class))
	}
	for _, name := range names {
		if g.Stats.Has(name) {
			g.Stats.Set(name, 0)
		}
	}
}
