package health

import "github.com/warmgate/warmgate/lb"

// GroupSizes returns how many clients and models are known, and at how many endpoints one of them at most.
func GroupSizes(h *Health) (groups, endpoints int) {
	for _, g := range h.groups {
		endpoints = max(endpoints, len(g.endpoints))
	}
	return len(h.groups), endpoints
}

// TierLoads returns which percentage of the requests the healthy and the degraded endpoints of each priority get.
func TierLoads(v *lb.View) (healthy, degraded []int) {
	priorities, _ := countPriorities(v, usable(v))
	healthy, degraded = make([]int, len(priorities)), make([]int, len(priorities))
	if totalCapacity(priorities) == 0 {
		return healthy, degraded
	}
	for _, t := range splitLoad(priorities) {
		if t.state == lb.Healthy {
			healthy[t.priority] = t.load
		} else {
			degraded[t.priority] = t.load
		}
	}
	return healthy, degraded
}

// CachedCandidates returns how many candidates are in the cached lists.
func CachedCandidates(h *Health) (n int) {
	for _, l := range h.lists.UsedAfter(-1) {
		n += len(l.base.Candidates)
		for i := range l.starting {
			n += len(l.starting[i].list.Candidates)
		}
	}
	return n
}
