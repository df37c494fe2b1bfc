package core

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

// queueUse is what a VM knows of the queue of a cluster.
type queueUse struct {
	config     *config.Config     // under which a request came last, nil for none yet
	store      lb.Store           // of that request
	redis      *redisclient.Store // that this is, nil for the local one
	candidates []lb.Candidate     // of that request
	tokens     int64              // that it adds where nothing of its prompt is cached
	stats      lb.QueueStats      // over all owners, at the latest heartbeat or refusal
	running    int64              // requests in flight at that time, 0 if that is not known or not needed
	readAt     time.Duration      // when that was
	refusedAt  time.Duration      // when one was refused last for want of room
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

// hasCaps reports whether every endpoint has a cap.
func (q *queueUse) hasCaps() bool {
	return len(q.candidates) > 0 && !slices.ContainsFunc(q.candidates, func(c lb.Candidate) bool {
		return c.Cap == 0 && c.TokenCap == 0
	})
}

// addrs returns the addresses of the endpoints.
func (q *queueUse) addrs() []string {
	addrs := make([]string, len(q.candidates))
	for i := range q.candidates {
		addrs[i] = q.candidates[i].Addr
	}
	return addrs
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
