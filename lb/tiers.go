package lb

import (
	"math"
	"slices"
	"time"
)

// This file is how a cluster's requests are divided among failover priorities, and in these among healthy and degraded
// endpoints: as Envoy divides them.

// overprovisioning is Envoy's default, in percent: a priority gets all requests until fewer than 100/140 of its
// endpoints are usable.
const overprovisioning = 140

// tier is the healthy endpoints of one priority, or its degraded ones.
type tier struct {
	priority uint8
	state    State
	load     int  // percent of the requests
	size     int  // candidates
	panics   bool // too few endpoints of the priority are usable: the gateway decides
}

// priorityCounts is how many endpoints of one priority there are, those that leave apart.
type priorityCounts struct{ healthy, degraded, total int }

// capacity returns which percentage of the cluster's requests n of the endpoints can take.
func (m *priorityCounts) capacity(n int) int {
	if m.total == 0 {
		return 0
	}
	return min(100, overprovisioning*n/m.total)
}

// totalCapacity returns which percentage of their requests all priorities together can take.
func totalCapacity(priorities []priorityCounts) int {
	sum := 0
	for i := range priorities {
		m := &priorities[i]
		sum += m.capacity(m.healthy) + m.capacity(m.degraded)
	}
	return min(100, sum)
}

// splitLoad returns the tiers that get requests. Priorities in turn take what their healthy endpoints can; what is left
// goes to the degraded ones in the same way. If all together cannot take everything, each gets accordingly more. What
// is lost by rounding goes to the first.
func splitLoad(priorities []priorityCounts) []tier {
	var tiers []tier
	all, left := totalCapacity(priorities), 100
	for _, state := range [2]State{Healthy, Degraded} {
		for i := range priorities {
			m := &priorities[i]
			n := m.healthy
			if state == Degraded {
				n = m.degraded
			}
			if n == 0 {
				continue
			}
			t := tier{priority: uint8(i), state: state}
			if all > 0 {
				t.load = min(left, m.capacity(n)*100/all)
			}
			left -= t.load
			if t.load > 0 || all == 0 && len(tiers) == 0 { // less than 1 % of every priority: any is better than none
				tiers = append(tiers, t)
			}
		}
	}
	if len(tiers) > 0 {
		tiers[0].load += left
	}
	return tiers
}

// drawTier returns the tier that a request is meant for, by bits 32 to 47 of its random bits.
func drawTier(tiers []tier, draw uint64) uint8 {
	percent := int((draw >> 32 & 0xffff) * 100 >> 16)
	for i := range tiers {
		if percent -= tiers[i].load; percent < 0 {
			return uint8(i)
		}
	}
	return 0
}

// usable returns the endpoints that the gateway would use.
func usable(v *View) []*Endpoint {
	out := make([]*Endpoint, 0, len(v.Endpoints))
	for i := range v.Endpoints {
		if e := &v.Endpoints[i]; e.State == Healthy || e.State == Degraded {
			out = append(out, e)
		}
	}
	return out
}

// countPriorities returns the members of all priorities, of which the given ones are usable, and how many there are in all.
func countPriorities(v *View, usable []*Endpoint) (priorities []priorityCounts, total int) {
	var last uint8
	for i := range v.Endpoints {
		last = max(last, v.Endpoints[i].Priority)
	}
	priorities = make([]priorityCounts, int(last)+1)
	for i := range v.Endpoints {
		if e := &v.Endpoints[i]; e.State != Draining {
			priorities[e.Priority].total++
			total++
		}
	}
	for _, e := range usable {
		if e.State == Healthy {
			priorities[e.Priority].healthy++
		} else {
			priorities[e.Priority].degraded++
		}
	}
	return priorities, total
}

// markPanic notes which tiers the gateway decides about, by the endpoints that it takes for usable. While all priorities
// together can take everything, none is.
func (h *HealthConfig) markPanic(tiers []tier, priorities []priorityCounts) {
	if totalCapacity(priorities) == 100 {
		return
	}
	for i := range tiers {
		m := &priorities[tiers[i].priority]
		tiers[i].panics = (m.healthy+m.degraded)*100 < h.PanicThreshold*m.total
	}
}

// eligible returns the endpoints of the view that may take a request, at what load costs there as long as they are well,
// and the tiers that they are in, or why there are none. What was ejected here is unusable like what the gateway has
// ejected, but never puts a priority into panic: the gateway would send requests there.
func (h *Health) eligible(now time.Duration, v *View, terms *ClusterConfig) ([]Candidate, []tier, Reason) {
	if len(v.Endpoints) == 0 {
		return nil, nil, ReasonNoEndpoints
	}
	list := usable(v)
	if len(list) == 0 {
		return nil, nil, ReasonNoHealthyEndpoint
	}
	gateways, total := countPriorities(v, list)
	list = h.withoutEjected(now, list, &terms.Health, maxEjections(terms.Health.MaxEjectionPercent, len(list), total))
	ours, _ := countPriorities(v, list)
	tiers := splitLoad(ours)
	terms.Health.markPanic(tiers, gateways)
	if !slices.ContainsFunc(tiers, func(t tier) bool { return !t.panics }) {
		return nil, nil, ReasonPanicThreshold
	}
	out := make([]Candidate, 0, len(list))
	for _, e := range list {
		at := slices.IndexFunc(tiers, func(t tier) bool { return t.priority == e.Priority && t.state == e.State })
		if at < 0 {
			continue
		}
		c := terms.newCandidate(e)
		c.Tier = uint8(at)
		if v.Zone.differs(e.Zone) {
			c.ZonePenalty = terms.ZonePenalty
		}
		tiers[at].size++
		out = append(out, c)
	}
	return out, tiers, ReasonChosen
}

// tierCosts is what makes a list of candidates the one of a request.
type tierCosts struct {
	tier        uint8   // that the request is meant for
	requestLoad float64 // cost of a request in flight
}

// apply returns the candidates with the cost of another zone, and with so high a cost of another tier that these are
// only taken when all of the request's own are full.
func (p tierCosts) apply(cs []Candidate) []Candidate {
	const much = 1 << 32 // load that no endpoint has
	out := slices.Clone(cs)
	least, most, slope := math.Inf(1), math.Inf(-1), 0.0
	for i := range out {
		c := &out[i]
		c.Base += c.ZonePenalty * p.requestLoad
		least, most = min(least, c.Base), max(most, c.Base)
		slope = max(slope, (c.Slope+c.OverSlope)/c.Weight)
	}
	for i := range out {
		if out[i].Tier != p.tier {
			out[i].Base += most - least + much*slope
		}
	}
	return out
}
