package lb

import (
	"slices"
	"time"
)

// State is the state of an endpoint as the gateway reports it.
type State uint8

// The states of an endpoint, from the gateway's health checks, discovery and outlier detection.
const (
	Healthy   State = iota
	Degraded        // used only where too few endpoints are healthy
	Unhealthy       // failed the gateway's active health check, or marked by discovery
	Draining        // gets no new requests and does not count towards the size of the cluster
	Ejected         // removed temporarily by the gateway's outlier detection
)

// String returns the state's name as it appears in logs.
func (s State) String() string {
	switch s {
	case Healthy:
		return "healthy"
	case Degraded:
		return "degraded"
	case Unhealthy:
		return "unhealthy"
	case Draining:
		return "draining"
	case Ejected:
		return "ejected"
	}
	return "unknown"
}

// Endpoint is one model server of a cluster as the gateway sees it.
type Endpoint struct {
	Addr   string  // "ip:port", IPv6 in brackets: the address that the gateway itself uses
	Weight float64 // share of the work that it gets, relative to the other endpoints; 0 counts as 1
	State  State

	Priority uint8 // failover priority; 0 is used first
	Zone     Zone
}

// View is the list of a cluster's endpoints at one moment. It is shared and must not be changed once published; a
// change of the cluster is a new View.
type View struct {
	Cluster   string
	ListID    uint64 // which list of a cluster with several; a new view replaces the previous one with the same id
	Endpoints []Endpoint
	Zone      Zone          // of the gateway
	CameAt    time.Duration // when the first of its endpoints came in place of none, 0 if that is not known
}

// Follow notes that the view takes the place of an older one, nil if there was none. Where none of the endpoints stays,
// the cluster had none for a moment, whether that was seen or not.
func (v *View) Follow(now time.Duration, old *View) {
	if old == nil {
		return
	}
	before := make(map[string]bool, len(old.Endpoints))
	for i := range old.Endpoints {
		e := &old.Endpoints[i]
		before[e.Addr] = e.State != Draining
	}
	v.CameAt = old.CameAt
	if !slices.ContainsFunc(v.Endpoints, func(e Endpoint) bool { return e.State != Draining && before[e.Addr] }) {
		v.CameAt = now
	}
}

// IsNew reports whether the first of its endpoints came less than so long ago.
func (v *View) IsNew(now, than time.Duration) bool { return v.CameAt > 0 && now-v.CameAt < than }
