package lb

import "time"

// This file is which endpoints of a cluster take requests, by what the gateway says of them.

// takers returns the endpoints of the view that take requests under the terms, or why there are none.
func (h *Health) takers(now time.Duration, v *View, terms *Terms) ([]*Endpoint, Reason) {
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
	return h.withoutEjected(now, usable, &terms.Health, mayEject(terms.Health.MaxEjectionPercent, available, total)), ReasonChosen
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
