package gauges

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/plugin/clusters"
)

// setQueue sets the gauges of a cluster's queue.
func (g *Gauges) setQueue(now time.Duration, cl *clusters.Cluster) {
	q := &cl.Queue
	if q.Config == nil {
		return
	}
	cl.ReadQueue(now, g.stores.Local)
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
	if q.AtZero { // one request is enough to start an endpoint
		s.Parallelism(min(1, uint64(q.Stats.Waiting)))
	} else if n, ok := g.parallelism(cl, share); ok {
		s.Parallelism(n)
	}
}
