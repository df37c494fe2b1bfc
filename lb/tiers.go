package lb

import "time"

// This file is which endpoints of a cluster take requests, by what the gateway says of them.

// candidates returns the endpoints of the view that may take a request, or why there are none.
func (h *Health) candidates(now time.Duration, v *View, terms *Terms) ([]Candidate, Reason) {
	if len(v.Endpoints) == 0 {
		return nil, ReasonNoEndpoints
	}
	usable, available, total := usable(v)
	switch {
	case len(usable) == 0:
		return nil, ReasonNoHealthyEndpoint
	case available*100 < terms.Health.PanicThreshold*total:
		return nil, ReasonPanicThreshold
	}
	usable = h.withoutEjected(now, usable, mayEject(terms.Health.MaxEjectionPercent, available, total))
	out, usual := make([]Candidate, 0, len(usable)), h.fleet(now, nil)
	for _, e := range usable {
		out = append(out, h.candidate(now, e, usual, terms))
	}
	return out, ReasonChosen
}

// usable returns the endpoints that the gateway would use, healthy ones before degraded ones; how many it could use, which
// includes the degraded; and how many there are that do not leave.
func usable(v *View) (usable []*Endpoint, available, total int) {
	var healthy, degraded []*Endpoint
	for i := range v.Endpoints {
		switch e := &v.Endpoints[i]; e.State {
		case Healthy:
			healthy = append(healthy, e)
		case Degraded:
			degraded = append(degraded, e)
		case Draining:
			total--
		}
	}
	total += len(v.Endpoints)
	available = len(healthy) + len(degraded)
	if len(healthy) > 0 {
		return healthy, available, total
	}
	return degraded, available, total
}
