package health

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

const (
	// groupWindow is how long an outcome of a client or a model counts.
	groupWindow = time.Minute
	// maxGroups is how many clients and models are followed, the latest ones.
	maxGroups = 256
	// maxGroupEndpoints is at how many endpoints a client or a model is followed, the latest ones.
	maxGroupEndpoints = 16
	// maxGroupOutcomes is over how many outcomes at an endpoint a share is averaged. With fewer it would jump.
	maxGroupOutcomes = 20
)

// groupKey identifies a client or a model.
type groupKey struct {
	model bool
	id    uint64 // 0 if unknown
}

func clientOf(o *lb.Outcome) groupKey { return groupKey{false, o.Client} }
func modelOf(o *lb.Outcome) groupKey  { return groupKey{true, o.Model} }

// groups is the clients and models whose requests are followed.
type groups map[groupKey]*group

// group is the requests of one client or for one model: how they ended at each endpoint.
type group struct {
	lastAt    time.Duration // of the last outcome
	endpoints []groupEndpoint
}

type groupEndpoint struct {
	addr     string
	badShare [outcomeKinds]float64 // share of each kind of failure among the latest outcomes
	outcomes float64               // number of outcomes, maxGroupOutcomes at most
	lastAt   time.Duration
}

// outcomeKind is a kind of failure. A share counts failures of one kind: rejections elsewhere do not excuse errors
// here.
type outcomeKind uint8

const (
	rejectionKind outcomeKind = iota
	overloadKind
	failureKind
	outcomeKinds
)

func kindOf(v lb.Verdict) outcomeKind {
	switch v {
	case lb.Rejected:
		return rejectionKind
	case lb.Overload, lb.Retried:
		return overloadKind
	}
	return failureKind
}

// failuresElsewhere returns the group's share of outcomes like this one: the median over the other endpoints with
// outcomes within groupWindow. prior counts like one outcome at each endpoint, and is returned for a nil group.
func (g *group) failuresElsewhere(now time.Duration, o *lb.Outcome, prior float64) float64 {
	var shares [maxGroupEndpoints]float64
	n := 0
	if g != nil {
		for i := range g.endpoints {
			if e := &g.endpoints[i]; e.addr != lb.ServerOf(o.Addr) && now-e.lastAt < groupWindow {
				shares[n] = (prior + e.outcomes*e.shareLike(o)) / (1 + e.outcomes)
				n++
			}
		}
	}
	if n == 0 {
		return prior
	}
	order.Up(shares[:n])
	return (shares[(n-1)/2] + shares[n/2]) / 2
}

// shareLike returns the share of outcomes of the same kind; for a success, that of the most frequent kind of failure.
func (e *groupEndpoint) shareLike(o *lb.Outcome) float64 {
	if o.Verdict == lb.Success {
		return slices.Max(e.badShare[:])
	}
	return e.badShare[kindOf(o.Verdict)]
}

// record records how a request ended for its client or its model; bad is from 0 for a success to 1 for a
// failure. An unknown client or model is not recorded.
func (gs groups) record(now time.Duration, key groupKey, o *lb.Outcome, bad float64) {
	if key.id == 0 {
		return
	}
	g := gs[key]
	if g == nil {
		gs.evict()
		g = &group{}
		gs[key] = g
	}
	g.lastAt = now
	e := g.endpoint(o.Addr)
	e.lastAt, e.outcomes = now, min(e.outcomes+1, maxGroupOutcomes)
	for k := range e.badShare {
		latest := 0.0
		if kindOf(o.Verdict) == outcomeKind(k) {
			latest = bad
		}
		e.badShare[k] += (latest - e.badShare[k]) / e.outcomes
	}
}

// evict deletes the group with the oldest outcome if there are maxGroups.
func (gs groups) evict() {
	if len(gs) < maxGroups {
		return
	}
	var oldest groupKey
	at := time.Duration(math.MaxInt64)
	for key, g := range gs {
		if g.lastAt < at || g.lastAt == at && key.id < oldest.id {
			oldest, at = key, g.lastAt
		}
	}
	delete(gs, oldest)
}

// endpoint returns the group's entry for an endpoint, new if there is none. A new entry replaces the oldest one if
// there are maxGroupEndpoints.
func (g *group) endpoint(addr string) *groupEndpoint {
	oldest := 0
	for i := range g.endpoints {
		if g.endpoints[i].addr == addr {
			return &g.endpoints[i]
		}
		if g.endpoints[i].lastAt < g.endpoints[oldest].lastAt {
			oldest = i
		}
	}
	if len(g.endpoints) < maxGroupEndpoints {
		g.endpoints = append(g.endpoints, groupEndpoint{addr: addr})
		return &g.endpoints[len(g.endpoints)-1]
	}
	g.endpoints[oldest] = groupEndpoint{addr: addr}
	return &g.endpoints[oldest]
}
