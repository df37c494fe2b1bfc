package gauges

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
)

// parallelism returns how many requests clients should have in flight: as many as there are, and a part of those for
// which there is room, the less the more backpressure there is. It is not known where there is no cap.
func (g *Gauges) parallelism(cl *clusters.Cluster, backpressure float64) (n uint64, known bool) {
	q := &cl.Queue
	if !q.HasCaps() {
		return 0, false
	}
	loads, known := cl.QueueLoads(g.stores.Local)
	if !known {
		return 0, false
	}
	inflight, tokens, room := int64(0), int64(0), int64(0)
	for _, l := range loads {
		inflight, tokens = inflight+l.Requests, tokens+l.Tokens
	}
	mean := float64(max(1, q.Tokens))
	if inflight > 0 {
		mean = max(1, float64(tokens)/float64(inflight))
	}
	for i, l := range loads {
		room += roomFor(&q.Candidates[i], l, mean)
	}
	return uint64(inflight) + uint64(float64(room)*(1-backpressure)), true
}

// askRedis asks what is in flight in one of the clusters whose requests wait in Redis, for the next time that gauges
// are set: the clusters take turns, because there may be many of them.
func (g *Gauges) askRedis(now time.Duration) {
	var next *clusters.Cluster
	for _, cl := range g.clusters {
		if q := &cl.Queue; q.Config != nil && q.Redis != nil && q.Redis.Ready(now) && q.HasCaps() &&
			(next == nil || q.AskedAt < next.Queue.AskedAt) {
			next = cl
		}
	}
	if next == nil {
		return
	}
	q := &next.Queue
	addrs := q.Addrs()
	q.AskedAt = now
	q.Redis.Loads(now, next.Name, addrs, func(loads []lb.Load, err error) {
		if err != nil {
			return
		}
		q.Inflight = make(map[string]lb.Load, len(addrs))
		for i, addr := range addrs {
			q.Inflight[addr] = loads[i]
		}
	})
}

// roomFor returns how many more requests of so many tokens a candidate takes that has a cap.
func roomFor(c *lb.Candidate, l lb.Load, tokens float64) int64 {
	room := int64(math.MaxInt64)
	if c.Cap > 0 {
		room = max(0, c.Cap-l.Requests)
	}
	if c.TokenCap > 0 {
		room = min(room, int64(math.Ceil(float64(max(0, c.TokenCap-l.Tokens))/tokens)))
	}
	return room
}
