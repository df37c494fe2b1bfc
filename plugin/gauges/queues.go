package gauges

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/plugin/clusters"
)

// readPeriod is how often the statistics of a queue are read at most to refuse requests.
const readPeriod = 100 * time.Millisecond

// readQueue reads the statistics of a cluster's queue, and what is in flight as long as no pace is known.
func (g *Gauges) readQueue(now time.Duration, cl *clusters.Cluster) {
	q := &cl.Queue
	q.Stats, q.Running, q.ReadAt = q.Store.Queue(now, cl.Name), 0, now
	if q.Stats.Interval > 0 {
		return
	}
	if loads, known := g.loadsOf(cl); known {
		for _, l := range loads {
			q.Running += l.Requests
		}
	}
}

// RefreshQueue has the statistics of a cluster's queue read again, unless that was just done.
func (g *Gauges) RefreshQueue(now time.Duration, cl *clusters.Cluster) {
	if q := &cl.Queue; q.Config != nil && now-q.ReadAt >= readPeriod {
		g.readQueue(now, cl)
	}
}

// setQueue sets the gauges of a cluster's queue.
func (g *Gauges) setQueue(now time.Duration, cl *clusters.Cluster) {
	q := &cl.Queue
	if q.Config == nil {
		return
	}
	g.readQueue(now, cl)
	if q.Stats.Waiting == 0 && !slices.Contains(g.inForce(), q.Config) {
		g.Of(cl).ClearQueue()
		q.Config, q.Classes = nil, nil
		return
	}
	q.ShowClasses(cl)
	s := g.Of(cl)
	for name, id := range q.Classes {
		s.Class(name, q.Stats.ByClass[id])
	}
	share := q.Pressure.Share(now)
	s.Pressure(share)
	if n, ok := g.parallelism(cl, share); ok {
		s.Parallelism(n)
	}
}
