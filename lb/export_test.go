package lb

// Busy makes the store defer releases as it does under load.
func (s *MemStore) Busy() { s.busy, s.reserved = true, busyAbove+1 }

// Blamed returns how many clients and models are known, and at how many endpoints one of them at most.
func Blamed(h *Health) (groups, endpoints int) {
	for _, g := range h.groups {
		endpoints = max(endpoints, len(g.ends))
	}
	return len(h.groups), endpoints
}

// Scopes returns how many scopes the store remembers.
func (s *MemStore) Scopes() int { return len(s.scopes) }
