package lb

// GroupSizes returns how many clients and models are known, and at how many endpoints one of them at most.
func GroupSizes(h *Health) (groups, endpoints int) {
	for _, g := range h.groups {
		endpoints = max(endpoints, len(g.endpoints))
	}
	return len(h.groups), endpoints
}

// TierLoads returns which percentage of the requests the healthy and the degraded endpoints of each priority get.
func TierLoads(v *View) (healthy, degraded []int) {
	priorities, _ := countPriorities(v, usable(v))
	healthy, degraded = make([]int, len(priorities)), make([]int, len(priorities))
	if totalCapacity(priorities) == 0 {
		return healthy, degraded
	}
	for _, t := range splitLoad(priorities) {
		if t.state == Healthy {
			healthy[t.priority] = t.load
		} else {
			degraded[t.priority] = t.load
		}
	}
	return healthy, degraded
}

// DerivedCandidates returns how many candidates are in the lists that a policy has cached.
func DerivedCandidates(p Policy) (n int) {
	var d *derivedLists[tierCosts]
	switch p := p.(type) {
	case *leastRequest:
		d = &p.derived
	case *prefixCache:
		d = &p.derived
	case *endpointMetrics:
		d = &p.derived
	}
	for _, l := range d.lists {
		n += len(l)
	}
	return n
}

// CachedCandidates returns how many candidates are in all cached lists.
func CachedCandidates(h *Health, g *Engines, s *RequestShares) (n int) {
	for _, p := range []*listPool{&h.lists.pool, &g.lists.pool, &s.pool} {
		for i := range p.lists {
			n += len(p.lists[i].candidates)
		}
	}
	for _, l := range h.lists.results {
		n += len(l.value.base)
		for i := range l.value.starting {
			n += len(l.value.starting[i].candidates)
		}
	}
	for _, l := range g.lists.results {
		n += len(l.value.source) + len(l.value.result)
	}
	return n
}

// RemoteIDs returns how many requests have another id in the remote store.
func RemoteIDs(s *FallbackStore) int { return len(s.remoteIDs) }
