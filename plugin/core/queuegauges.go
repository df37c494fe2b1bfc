package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
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

// overloaded reports whether requests wait in the cluster, or were refused lately.
func (cl *cluster) overloaded(now time.Duration) bool {
	refused := cl.queue.refusedAt > 0 && now-cl.queue.refusedAt < retrySeconds*time.Second
	return refused || cl.waiting > 0 || cl.queue.stats.Waiting > 0
}

// readPeriod is how often the statistics of a queue are read at most to refuse requests.
const readPeriod = 100 * time.Millisecond

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

// setQueue sets the gauges of a cluster's queue.
func (g *gauges) setQueue(now time.Duration, cl *cluster) {
	q := &cl.queue
	if q.config == nil {
		return
	}
	g.readQueue(now, cl)
	if q.stats.Waiting == 0 && !slices.Contains(g.inForce(), q.config) {
		g.of(cl).ClearQueue()
		q.config, q.classes = nil, nil
		return
	}
	q.showClasses(cl)
	s := g.of(cl)
	for name, id := range q.classes {
		s.Class(name, q.stats.ByClass[id])
	}
	share := q.pressure.Share(now)
	s.Pressure(share)
	if n, ok := g.parallelism(cl, share); ok {
		s.Parallelism(n)
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
