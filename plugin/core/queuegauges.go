package core

import (
	"slices"
	"time"
)

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
