package clusters

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/plugin/admission"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/redisclient"
)

// Queue is what a VM knows of the queue of a cluster.
type Queue struct {
	Config     *config.Config     // under which a request came last, nil for none yet
	Store      lb.Store           // of that request
	Redis      *redisclient.Store // that this is, nil for the local one
	Candidates []lb.Candidate     // of that request
	AtZero     bool               // the cluster had no endpoint then
	Tokens     int64              // that it adds where nothing of its prompt is cached
	Stats      lb.QueueStats      // over all owners, at the latest heartbeat or refusal
	Running    int64              // requests in flight at that time, 0 if that is not known or not needed
	ReadAt     time.Duration      // when that was
	RefusedAt  time.Duration      // when one was refused last for want of room
	Pressure   admission.Pressure
	Classes    map[string]uint16  // ids of those that have a gauge, by name
	Inflight   map[string]lb.Load // in Redis, by endpoint, as far as asked
	AskedAt    time.Duration      // when that was
}

// Overloaded reports whether requests wait in the cluster, or were refused lately.
func (cl *Cluster) Overloaded(now time.Duration) bool {
	refused := cl.Queue.RefusedAt > 0 && now-cl.Queue.RefusedAt < RetrySeconds*time.Second
	return refused || cl.Waiting > 0 || cl.Queue.Stats.Waiting > 0
}

// HasCaps reports whether every endpoint has a cap.
func (q *Queue) HasCaps() bool {
	return len(q.Candidates) > 0 && !slices.ContainsFunc(q.Candidates, func(c lb.Candidate) bool {
		return c.Cap == 0 && c.TokenCap == 0
	})
}

// Addrs returns the addresses of the endpoints.
func (q *Queue) Addrs() []string {
	addrs := make([]string, len(q.Candidates))
	for i := range q.Candidates {
		addrs[i] = q.Candidates[i].Addr
	}
	return addrs
}

// queueReadPeriod is how often the statistics of a queue are read at most to refuse requests.
const queueReadPeriod = 100 * time.Millisecond

// RefreshQueue reads the statistics of the queue again, unless that was just done. local is the store in the gateway's
// memory.
func (cl *Cluster) RefreshQueue(now time.Duration, local *memstore.Store) {
	if q := &cl.Queue; q.Config != nil && now-q.ReadAt >= queueReadPeriod {
		cl.ReadQueue(now, local)
	}
}

// ReadQueue reads the statistics of the queue, and what is in flight as long as no pace is known.
func (cl *Cluster) ReadQueue(now time.Duration, local *memstore.Store) {
	q := &cl.Queue
	q.Stats, q.Running, q.ReadAt = q.Store.Queue(now, cl.Name), 0, now
	if q.Stats.Interval > 0 {
		return
	}
	if loads, known := cl.QueueLoads(local); known {
		for _, l := range loads {
			q.Running += l.Requests
		}
	}
}

// QueueLoads returns what is in flight at each endpoint of the queue, over all owners.
func (cl *Cluster) QueueLoads(local *memstore.Store) (loads []lb.Load, known bool) {
	q := &cl.Queue
	if q.Redis == nil {
		loads, err := local.Loads(cl.Name, q.Addrs(), nil)
		return loads, err == nil
	}
	for _, addr := range q.Addrs() {
		l, known := q.Inflight[addr]
		if !known {
			return nil, false
		}
		loads = append(loads, l)
	}
	return loads, true
}

// ShowClasses adds the classes of all configurations of the cluster to those that have a gauge. Their gauges stay while
// a configuration with a queue is in force.
func (q *Queue) ShowClasses(cl *Cluster) {
	if q.Classes == nil {
		q.Classes = map[string]uint16{}
	}
	for c := range cl.Policies {
		if !c.Queue.Enabled() {
			continue
		}
		for i := range c.Queue.Classes {
			q.Classes[c.Queue.Classes[i].Name] = c.Queue.Classes[i].ID
		}
	}
}
