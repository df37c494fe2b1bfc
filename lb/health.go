package lb

import (
	"math"
	"slices"
	"time"
)

// HealthConfig sets how endpoints are judged by the requests they were given. The zero value of a field switches that
// part off.
type HealthConfig struct {
	ConsecutiveFailures int           // failures that eject an endpoint if each says all about it; successes count against them
	EjectionTime        time.Duration // of the first ejection; doubles with each further one
	MaxEjectionTime     time.Duration // the longest ejection
	MaxEjectionPercent  int           // share of the endpoints that may be ejected at once; at least one may
	SlowStart           time.Duration // in which a new or returned endpoint grows to its full weight
	PanicThreshold      int           // percent of healthy endpoints below which native balancing decides
}

const (
	// minWeightFactor keeps a failing endpoint from vanishing altogether: it must be able to prove itself.
	minWeightFactor = 0.02
	// unusedEndpointListTTL is how long the endpoints of a list are remembered that no request has needed.
	unusedEndpointListTTL = 10 * time.Minute
)

// Health judges the endpoints of one cluster by what became of the requests they were given: endpoints that fail lose
// weight at once, so that failing fast attracts nothing, and are ejected when failures add up; endpoints that are
// new or return start slowly: see slow_start.go. A failure weighs as much as it says about the endpoint rather than
// about the request: see failure_weight.go. One VM has one Health per cluster; ejections travel between VMs by Export and
// Import.
type Health struct {
	endpoints     map[string]*endpointHealth
	endpointLists []*endpointList
	current       []*endpointHealth // those in the latest views
	groups        map[groupKey]*group
	lastFailureAt time.Duration       // of the last bad outcome
	meanLoad      [Tokens + 1]float64 // load for each weight of 1 where requests were placed, by unit, moving average

	candidateLists map[listKey]*candidateList
	configs        map[*ClusterConfig]bool // in use
	pool           listPool
	sweptAt        time.Duration // when lists that are not used were last looked for
	exportPending  bool          // an ejection to export
	ejectionCount  uint64
}

type endpointHealth struct {
	suspicion                  // whether to eject it
	ejection                   // the latest
	rate         float64       // of bad outcomes by their weight, moving average, as it was at the last outcome
	longRate     float64       // the same over many more outcomes
	rateAt       time.Duration // of the last outcome
	firstSeen    time.Duration // when it was first seen; slow start counts from here
	startsSlowly bool          // is to start slowly
	starting     bool          // does so at the moment
	listed       bool          // in the latest views
}

// ClusterConfig is what the configuration says of a cluster's endpoints.
type ClusterConfig struct {
	Unit        Unit               // of load
	MaxInflight int64              // requests in flight per endpoint of weight 1 as configured, 0 for no cap
	ZonePenalty float64            // cost of an endpoint in another zone, in requests in flight
	Weights     map[string]float64 // by address, over what the gateway says
	Health      HealthConfig
}

// Weight returns the endpoint's capacity: what the terms say, else what the gateway says, else 1.
func (t *ClusterConfig) Weight(e *Endpoint) float64 {
	weight := e.Weight
	if w, ok := t.Weights[e.Addr]; ok {
		weight = w
	}
	if weight <= 0 {
		return 1
	}
	return weight
}

// hasWeights says whether capacities of the view's endpoints are configured, by the terms or by the gateway.
func (t *ClusterConfig) hasWeights(v *View) bool {
	if len(t.Weights) > 0 {
		return true
	}
	for i := range v.Endpoints {
		if t.Weight(&v.Endpoints[i]) != t.Weight(&v.Endpoints[0]) {
			return true
		}
	}
	return false
}

// NewHealth returns the health of a cluster of which nothing is known.
func NewHealth() *Health {
	return &Health{
		endpoints: map[string]*endpointHealth{}, groups: map[groupKey]*group{},
		candidateLists: map[listKey]*candidateList{}, configs: map[*ClusterConfig]bool{},
	}
}

// Ejections returns how many ejections were decided here.
func (h *Health) Ejections() uint64 { return h.ejectionCount }

// endpointList is one of several lists of a cluster's endpoints: see [View.ListID].
type endpointList struct {
	view     *View
	lastUsed time.Duration
}

// updateView notices endpoints that came and forgets those that are in no list's latest view any more.
func (h *Health) updateView(now time.Duration, v *View) {
	n := len(h.endpointLists)
	s := h.endpointList(now, v.ListID)
	s.lastUsed = now
	if s.view == v && len(h.endpointLists) == n {
		return
	}
	known := 0
	for i := range v.Endpoints {
		if h.endpoints[v.Endpoints[i].Addr] != nil {
			known++
		}
	}
	// Beside others that are known, an endpoint is new. The first view of a list is not, unless it is another list
	// changed.
	slow := known > 0 && (s.view != nil || 2*known >= len(v.Endpoints))
	s.view = v
	for _, t := range h.endpoints {
		t.listed = false
	}
	h.current = h.current[:0]
	for _, s := range h.endpointLists {
		for i := range s.view.Endpoints {
			addr := s.view.Endpoints[i].Addr
			t, ok := h.endpoints[addr]
			if !ok {
				t = &endpointHealth{firstSeen: now, startsSlowly: slow}
				h.endpoints[addr] = t
			}
			if !t.listed {
				h.current = append(h.current, t)
			}
			t.listed = true
		}
	}
	for addr, t := range h.endpoints {
		if !t.listed && now >= t.until { // an ejected endpoint that flaps must not come back clean
			delete(h.endpoints, addr)
		}
	}
}

// endpointList returns the list of the source, and forgets those that nobody uses.
func (h *Health) endpointList(now time.Duration, id uint64) *endpointList {
	h.endpointLists = slices.DeleteFunc(h.endpointLists, func(s *endpointList) bool {
		return now-s.lastUsed > unusedEndpointListTTL && s.view.ListID != id
	})
	for _, s := range h.endpointLists {
		if s.view.ListID == id {
			return s
		}
	}
	s := &endpointList{}
	h.endpointLists = append(h.endpointLists, s)
	return s
}

// newCandidate returns what load costs on an endpoint as long as it is well.
func (t *ClusterConfig) newCandidate(e *Endpoint) Candidate {
	c := Candidate{Addr: e.Addr, Slope: 1, Weight: t.Weight(e)}
	if t.MaxInflight > 0 {
		c.Cap = max(1, int64(math.Round(float64(t.MaxInflight)*c.Weight)))
	}
	return c
}

// maxEjections returns how many endpoints may be out on top of those that the gateway took out itself: a share of all, but
// at least one while none is out.
func maxEjections(percent, available, total int) int {
	if percent <= 0 {
		return 0
	}
	return max(1, total*percent/100) - (total - available)
}

// withoutEjected leaves out the endpoints that are ejected under the configuration, those that stay out longest first,
// but no more than may be out, and never all.
func (h *Health) withoutEjected(now time.Duration, usable []*Endpoint, cfg *HealthConfig, may int) []*Endpoint {
	var until []time.Duration
	for _, e := range usable {
		if out := h.endpoints[e.Addr].ejectedUntil(cfg); now < out {
			until = append(until, out)
		}
	}
	may = min(may, len(usable)-1)
	if len(until) == 0 || may <= 0 {
		return usable
	}
	slices.Sort(until)
	from := until[max(0, len(until)-may)]
	left := make([]*Endpoint, 0, len(usable))
	for _, e := range usable {
		if out := h.endpoints[e.Addr].ejectedUntil(cfg); now < out && out >= from && may > 0 {
			may--
			continue
		}
		left = append(left, e)
	}
	return left
}

// medianFailureRate returns the failure rate of the endpoint in the middle, t left out if there is one: what most do is no fault
// of one.
func (h *Health) medianFailureRate(now time.Duration, t *endpointHealth) float64 {
	return h.medianOf(t, func(t *endpointHealth) float64 { return t.failureRate(now) })
}

// medianOf returns a rate of the endpoint in the middle, t left out if there is one.
func (h *Health) medianOf(t *endpointHealth, rate func(*endpointHealth) float64) float64 {
	var rates [maxCompared]float64
	n, step := 0, max(1, (len(h.current)+maxCompared-1)/maxCompared)
	for i := 0; i < len(h.current); i += step {
		if other := h.current[i]; other != t {
			rates[n] = rate(other)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	slices.Sort(rates[:n])
	return rates[(n-1)/2]
}

// baselineFailureRate returns the failure rate that says nothing against an endpoint: that of the one in the middle, now or in the
// long run, and as much more as chance makes of the latter. What fails everywhere must weaken nobody: the endpoint
// that a request has just failed at is not worse than the others, which have failed a moment ago.
func (h *Health) baselineFailureRate(now time.Duration) float64 {
	const chance = 3 // standard deviations of the moving average
	often := h.medianOf(nil, func(t *endpointHealth) float64 { return t.longRate })
	spread := chance * math.Sqrt(often*(1-often)*rateGain/(2-rateGain))
	return max(h.medianFailureRate(now, nil), min(often+spread, 1))
}

// weightFactor is the share of its weight that an endpoint has at the moment.
func (t *endpointHealth) weightFactor(now time.Duration, usual float64) float64 {
	well := min(1, (1-t.failureRate(now))/max(1-usual, minWeightFactor))
	return max(well*well, minWeightFactor)
}

// changesWithTime says whether time changes what the endpoint gets.
func (t *endpointHealth) changesWithTime(now time.Duration) bool {
	return now < t.until || t.failureRate(now) > 0
}
