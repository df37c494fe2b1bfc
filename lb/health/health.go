// Package health says which endpoints of a cluster may get a request, and at what weight: by their state in the
// gateway and by how their requests ended.
package health

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
)

const (
	// minWeightFactor is the lowest share of its weight that a failing endpoint keeps. It must get some requests to
	// recover.
	minWeightFactor = 0.02
	// unusedEndpointListTTL is how long a list of endpoints is followed that no request has used.
	unusedEndpointListTTL = 10 * time.Minute
)

// Health judges the endpoints of one cluster by the outcomes of their requests. A failing endpoint loses weight at
// once, so that failing fast attracts no requests, and is ejected when failures add up: see failure_weight.go, which
// also explains how much a failure counts. New and returned endpoints start slowly: see slow_start.go. One VM has one
// Health per cluster; Export and Import share ejections between VMs.
type Health struct {
	endpoints     map[string]*endpointHealth // by address, of ranks their server's
	endpointLists []*endpointList
	current       []*endpointHealth // those in the latest views
	groups        groups
	lastFailureAt time.Duration
	meanLoad      [lb.Tokens + 1]float64 // load per unit of weight at granted endpoints, by unit, moving average

	configs       lb.EqualConfigs[*ClusterConfig]
	lists         *recent.Cache[candidateKey, *candidateList]
	version       uint64 // changes with what all lists depend on
	exportPending bool   // there is an ejection to export
	ejectionCount uint64
	ejected       []EjectedEndpoint // since the last TakeEjected
}

// endpointHealth is what is known of one endpoint.
type endpointHealth struct {
	suspicion
	ejection                   // the latest
	rate         float64       // failure rate by weight, moving average, as of rateAt; see failureRate
	longRate     float64       // the same over many more outcomes, without decay
	rateAt       time.Duration // time of the last outcome
	firstSeen    time.Duration // slow start begins here
	startsSlowly bool          // new when first seen
	starting     bool          // in slow start, as of the latest list of candidates
	listed       bool          // in the latest views
}

// New returns the health of a cluster without history.
func New() *Health {
	return &Health{
		endpoints: map[string]*endpointHealth{}, groups: groups{},
		lists: recent.New[candidateKey, *candidateList](maxCandidateLists, lb.UnusedListTTL), version: 1,
	}
}

// Ejections returns how many ejections this VM has decided; imported ones do not count.
func (h *Health) Ejections() uint64 { return h.ejectionCount }

// Knows reports whether the endpoint is in the latest views, or is ejected.
func (h *Health) Knows(addr string) bool { return h.of(addr) != nil }

// of returns what is known of an endpoint, nil for nothing: of a rank what is known of its server.
func (h *Health) of(addr string) *endpointHealth { return h.endpoints[lb.ServerOf(addr)] }

// endpointList is one of several lists of a cluster's endpoints: see [lb.View.ListID].
type endpointList struct {
	view     *lb.View
	lastUsed time.Duration
}

// updateView adds endpoints that are new in the view, and forgets those that are in no list's latest view.
func (h *Health) updateView(now time.Duration, v *lb.View) {
	n := len(h.endpointLists)
	list := h.endpointList(now, v.ListID)
	list.lastUsed = now
	if list.view == v && len(h.endpointLists) == n {
		return
	}
	known := 0
	for i := range v.Endpoints {
		if h.of(v.Endpoints[i].Addr) != nil {
			known++
		}
	}
	// An endpoint that is added to known ones is new and starts slowly. The endpoints of the first view of a list are
	// not new, unless it is a known list with changes.
	startsSlowly := known > 0 && (list.view != nil || 2*known >= len(v.Endpoints))
	list.view = v
	h.updateEndpoints(now, startsSlowly)
}

// updateEndpoints brings the endpoints up to date with the latest views of all lists.
func (h *Health) updateEndpoints(now time.Duration, startsSlowly bool) {
	for _, e := range h.endpoints {
		e.listed = false
	}
	h.current = h.current[:0]
	for _, list := range h.endpointLists {
		for i := range list.view.Endpoints {
			addr := lb.ServerOf(list.view.Endpoints[i].Addr)
			e, ok := h.endpoints[addr]
			if !ok {
				e = &endpointHealth{firstSeen: now, startsSlowly: startsSlowly}
				h.endpoints[addr] = e
			}
			if !e.listed {
				h.current = append(h.current, e)
			}
			e.listed = true
		}
	}
	for addr, e := range h.endpoints {
		if !e.listed && now >= e.until { // an ejected endpoint that flaps must stay ejected
			delete(h.endpoints, addr)
		}
	}
}

// endpointList returns the list with the id, new if there is none, and deletes lists that are no longer used.
func (h *Health) endpointList(now time.Duration, id uint64) *endpointList {
	h.endpointLists = slices.DeleteFunc(h.endpointLists, func(l *endpointList) bool {
		return now-l.lastUsed > unusedEndpointListTTL && l.view.ListID != id
	})
	for _, l := range h.endpointLists {
		if l.view.ListID == id {
			return l
		}
	}
	l := &endpointList{}
	h.endpointLists = append(h.endpointLists, l)
	return l
}

// maxEjections returns how many servers may be ejected in addition to those that the gateway considers unusable: a
// percentage of all, but at least one while the gateway uses all.
func maxEjections(percent, available, total int) int {
	if percent <= 0 {
		return 0
	}
	return max(1, total*percent/100) - (total - available)
}

// withoutEjected returns the usable endpoints that are not ejected under the configuration. It excludes at most the
// given number of servers, those with the longest ejection first, and all only if the configuration allows that.
func (h *Health) withoutEjected(now time.Duration, usable []*lb.Endpoint, cfg *Config, most int) []*lb.Endpoint {
	var until []time.Duration
	var all servers
	for _, e := range usable {
		if !all.next(e) {
			continue
		}
		if out := h.of(e.Addr).ejectedUntil(cfg); now < out {
			until = append(until, out)
		}
	}
	if !cfg.EjectsAll {
		most = min(most, all.n-1)
	}
	if len(until) == 0 || most <= 0 {
		return usable
	}
	order.Up(until)
	shortest := until[max(0, len(until)-most)] // shorter ejections have no effect
	left := make([]*lb.Endpoint, 0, len(usable))
	var at servers
	out := false // the server of the endpoint is excluded
	for _, e := range usable {
		if at.next(e) {
			if out = most > 0 && h.of(e.Addr).ejectedUntil(cfg) >= shortest; out {
				most--
			}
		}
		if !out {
			left = append(left, e)
		}
	}
	return left
}

// medianFailureRate returns the median failure rate of the endpoints, e excluded if it is not nil. A failure that most
// endpoints share is not the fault of one.
func (h *Health) medianFailureRate(now time.Duration, e *endpointHealth) float64 {
	return h.medianOf(e, func(e *endpointHealth) float64 { return e.failureRate(now) })
}

// medianOf returns the lower median of a rate over at most maxCompared endpoints, e excluded if it is not nil; 0 if
// there are none.
func (h *Health) medianOf(e *endpointHealth, rate func(*endpointHealth) float64) float64 {
	var rates [maxCompared]float64
	n, step := 0, max(1, (len(h.current)+maxCompared-1)/maxCompared)
	for i := 0; i < len(h.current); i += step {
		if other := h.current[i]; other != e {
			rates[n] = rate(other)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	order.Up(rates[:n])
	return rates[(n-1)/2]
}

// baselineFailureRate returns the failure rate up to which an endpoint keeps its weight: the median rate, or the median
// long-term rate plus its random variation, whichever is higher. So failures that all endpoints have weaken none: the
// endpoint with the latest failure is not worse than the others, whose rates have decayed a little longer.
func (h *Health) baselineFailureRate(now time.Duration) float64 {
	const deviations = 3 // standard deviations of a moving average with rateGain
	long := h.medianOf(nil, func(e *endpointHealth) float64 { return e.longRate })
	spread := deviations * math.Sqrt(long*(1-long)*rateGain/(2-rateGain))
	return max(h.medianFailureRate(now, nil), min(long+spread, 1))
}

// weightFactor returns the share of its weight that the endpoint has now, from minWeightFactor to 1: the square of its
// success rate relative to the baseline's.
func (e *endpointHealth) weightFactor(now time.Duration, baseline float64) float64 {
	relative := min(1, (1-e.failureRate(now))/max(1-baseline, minWeightFactor))
	return max(relative*relative, minWeightFactor)
}

// changesWithTime reports whether the endpoint's candidates change with time alone.
func (e *endpointHealth) changesWithTime(now time.Duration) bool {
	return now < e.until || e.failureRate(now) > 0
}
