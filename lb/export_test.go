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
	var d *derivedLists
	switch p := p.(type) {
	case *leastRequest:
		d = &p.derived
	case *prefixCache:
		d = &p.derived
	case *endpointMetrics:
		d = &p.derived
	}
	if d.made == nil {
		return 0
	}
	for _, l := range d.made.UsedAfter(-1) {
		n += len(l.Candidates)
	}
	return n
}

// CachedCandidates returns how many candidates are in all cached lists.
func CachedCandidates(h *Health, g *Engines) (n int) {
	for _, l := range h.lists.UsedAfter(-1) {
		n += len(l.base.Candidates)
		for i := range l.starting {
			n += len(l.starting[i].list.Candidates)
		}
	}
	for _, l := range g.lists.UsedAfter(-1) {
		n += len(l.list.Candidates)
	}
	return n
}

// RemoteIDs returns how many requests have another id in the remote store.
func RemoteIDs(s *FallbackStore) int { return len(s.remoteIDs) }
