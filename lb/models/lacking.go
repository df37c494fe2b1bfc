package models

import "time"

// Lacking returns how many of the endpoints, which are hashes of addresses, are known not to have a model that another
// of them has: their lists do not contain it, or they have answered so and not served it since. id and name are of
// requests for it: [lb.Request.ModelID] and [lb.Request.ModelName].
func (f *Facts) Lacking(now time.Duration, id, name uint64, endpoints []uint64) (n int) {
	m, listed := f.find(id), has(f.listed.partly, name)
	if !listed && (m == nil || m.until == 0 || !m.found(now)) {
		return 0
	}
	for _, endpoint := range endpoints {
		if f.lacks(now, name, m, endpoint) {
			n++
		}
	}
	if n == len(endpoints) { // who had it has left
		return 0
	}
	return n
}

// lacks reports whether the endpoint is known not to have the model, of which m is known. An answer counts for longer
// than requests avoid the endpoint: it is asked again now and then.
func (f *Facts) lacks(now time.Duration, name uint64, m *modelFacts, endpoint uint64) bool {
	if m != nil {
		e := m.find(endpoint)
		if e != nil && e.absent.until > 0 && now-e.absent.until < factsActive {
			return true
		}
	}
	l := f.listed.of(endpoint)
	return has(f.listed.partly, name) && l != nil && l.Models != nil && !l.serves(now, name, m)
}
