package views

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/process"
)

// A cluster whose circuit breaker is open fails requests, so it is left out before that. What the breaker counts is the
// gateway's requests there, over all workers: those counted here, whose number is always known exactly, and others,
// which a look at the gateway shows. So it has room for max_requests less the others.

// breakers are the circuit breakers of a list of clusters.
type breakers struct {
	known   bool
	version uint32    // of what room is from
	room    []int64   // requests of this scope that fit
	open    []bool    // that many are there, or more
	own     []lb.Load // requests of this scope, at readAt
	before  []int64   // of these, those that the gateway counted at a tick
	ticked  time.Duration
	readAt  time.Duration
	near    bool // so many that they are counted again for each request
}

func newBreakers(n int) breakers {
	return breakers{room: make([]int64, n), open: make([]bool, n), before: make([]int64, n)}
}

// idleAfter is how long a list that no request comes for is kept up to date.
const idleAfter = 10 * time.Second

// Tick looks at the breakers of all lists that are in use.
func (v *Views) Tick(now time.Duration) {
	for key, l := range v.lists.UsedAfter(now - idleAfter) {
		b := &l.breakers
		b.readAt = 0
		if v.look(now, l, key) {
			l.view = nil // the next request brings another one
		}
		b.ticked = now
		for i := range b.own {
			b.before[i] = v.reached(now, key.config, key.config.Clusters.List[i], b.own[i].Requests)
		}
	}
}

// reached returns how many of n requests that were sent to a cluster its circuit breaker can count: not those that wait
// in it for an endpoint. With Redis that is not known, as requests of all gateways wait there.
func (v *Views) reached(now time.Duration, c *config.Config, cluster string, n int64) int64 {
	if in := c.Clusters.Endpoint; in == nil || !in.Queue.Enabled() || c.UsesRedis() {
		return n
	}
	return max(0, n-int64(v.stores.Local.Queue(now, cluster).Waiting))
}

// look brings the breakers of a list up to date, and reports whether one has opened or closed. What is in flight is
// read once for each tick, and for each request once a cluster is half full: overflows sees the rest.
func (v *Views) look(now time.Duration, l *clusterList, key clusterScope) (changed bool) {
	b, c := &l.breakers, key.config
	limits, version := v.GW.Breakers(c)
	if limits == nil {
		changed = slices.Contains(b.open, true)
		b.known, b.version = false, 0
		clear(b.open)
		return changed
	}
	if version == b.version && now == b.readAt && !b.near {
		return false
	}
	own, err := v.stores.Local.Loads(key.scope, c.Clusters.List, b.own[:0])
	if err != nil {
		return false
	}
	b.own, b.readAt, b.near = own, now, false
	for i, name := range c.Clusters.List {
		n := own[i].Requests
		limit, limited := limits[c.Clusters.Holds(name)]
		if version != b.version || !b.known {
			// The gateway counted them after the last tick. Those of this scope that ended since are no others.
			most := v.reached(now, c, name, n)
			if now-b.ticked < 2*process.TickPeriod {
				most = max(most, b.before[i])
			}
			b.room[i] = limit.MaxRequests - max(0, limit.Active-most)
		}
		open := limited && n >= b.room[i]
		changed = changed || open != b.open[i]
		b.open[i], b.near = open, b.near || limited && 2*n >= b.room[i]
	}
	b.known, b.version = true, version
	return changed
}

// Overflows reports whether a cluster has no room for all requests of this scope that were granted it: as many as
// given, unless that is the number in all gateways (inAll): then those of this one are counted.
func (v *Views) Overflows(scope string, c *config.Config, cluster string, granted int64, inAll bool) bool {
	l, known := v.lists.Get(v.Clock(), clusterScope{c, scope})
	if !known || !l.breakers.known {
		return false
	}
	b, i := &l.breakers, slices.Index(c.Clusters.List, cluster)
	limits, _ := v.GW.Breakers(c)
	if _, limited := limits[c.Clusters.Holds(cluster)]; !limited || i < 0 {
		return false
	}
	if inAll {
		loads, err := v.stores.Local.Loads(scope, c.Clusters.List[i:i+1], nil)
		if err != nil {
			return false
		}
		granted = loads[0].Requests
	}
	b.near = b.near || 2*granted >= b.room[i]
	return granted > b.room[i]
}
