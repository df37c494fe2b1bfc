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
	// leastFactor keeps a failing endpoint from vanishing altogether: it must be able to prove itself.
	leastFactor = 0.02
	// sourceAge is how long the endpoints of a list are remembered that no request has needed.
	sourceAge = 10 * time.Minute
)

// Health judges the endpoints of one cluster by what became of the requests they were given: endpoints that fail lose
// weight at once, so that failing fast attracts nothing, and are ejected when failures add up; endpoints that are
// new or return start slowly: see slow_start.go. A failure weighs as much as it says about the endpoint rather than
// about the request: see blame.go. One VM has one Health per cluster; ejections travel between VMs by Export and
// Import.
type Health struct {
	tracked  map[string]*tracked
	listings []*listing
	order    []*tracked // those in the latest views
	groups   map[groupKey]*group
	badAt    time.Duration       // of the last bad outcome
	placed   [Tokens + 1]float64 // load for each weight of 1 where requests were placed, by unit, moving average

	lists   map[listKey]*candidateList
	terms   map[*ClusterConfig]bool // in use
	made    pool
	swept   time.Duration // when lists that are not used were last looked for
	changed bool          // an ejection to export
	ejected uint64
}

type tracked struct {
	suspicion               // whether to eject it
	ejection                // the latest
	rate      float64       // of bad outcomes by their weight, moving average, as it was at the last outcome
	often     float64       // the same over many more outcomes
	at        time.Duration // of the last outcome
	since     time.Duration // when it was first seen; slow start counts from here
	slow      bool          // is to start slowly
	starts    bool          // does so at the moment
	seen      bool          // in the latest views
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

// weighted says whether capacities of the view's endpoints are configured, by the terms or by the gateway.
func (t *ClusterConfig) weighted(v *View) bool {
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
		tracked: map[string]*tracked{}, groups: map[groupKey]*group{},
		lists: map[listKey]*candidateList{}, terms: map[*ClusterConfig]bool{},
	}
}

// Ejections returns how many ejections were decided here.
func (h *Health) Ejections() uint64 { return h.ejected }

// listing is one of several lists of a cluster's endpoints: see [View.ListID].
type listing struct {
	view *View
	used time.Duration
}

// follow notices endpoints that came and forgets those that are in no list's latest view any more.
func (h *Health) follow(now time.Duration, v *View) {
	n := len(h.listings)
	s := h.listing(now, v.ListID)
	s.used = now
	if s.view == v && len(h.listings) == n {
		return
	}
	known := 0
	for i := range v.Endpoints {
		if h.tracked[v.Endpoints[i].Addr] != nil {
			known++
		}
	}
	// Beside others that are known, an endpoint is new. The first view of a list is not, unless it is another list
	// changed.
	slow := known > 0 && (s.view != nil || 2*known >= len(v.Endpoints))
	s.view = v
	for _, t := range h.tracked {
		t.seen = false
	}
	h.order = h.order[:0]
	for _, s := range h.listings {
		for i := range s.view.Endpoints {
			addr := s.view.Endpoints[i].Addr
			t, ok := h.tracked[addr]
			if !ok {
				t = &tracked{since: now, slow: slow}
				h.tracked[addr] = t
			}
			if !t.seen {
				h.order = append(h.order, t)
			}
			t.seen = true
		}
	}
	for addr, t := range h.tracked {
		if !t.seen && now >= t.until { // an ejected endpoint that flaps must not come back clean
			delete(h.tracked, addr)
		}
	}
}

// listing returns the list of the source, and forgets those that nobody uses.
func (h *Health) listing(now time.Duration, id uint64) *listing {
	h.listings = slices.DeleteFunc(h.listings, func(s *listing) bool {
		return now-s.used > sourceAge && s.view.ListID != id
	})
	for _, s := range h.listings {
		if s.view.ListID == id {
			return s
		}
	}
	s := &listing{}
	h.listings = append(h.listings, s)
	return s
}

// candidate returns what load costs on an endpoint as long as it is well.
func (t *ClusterConfig) candidate(e *Endpoint) Candidate {
	c := Candidate{Addr: e.Addr, Slope: 1, Weight: t.Weight(e)}
	if t.MaxInflight > 0 {
		c.Cap = max(1, int64(math.Round(float64(t.MaxInflight)*c.Weight)))
	}
	return c
}

// mayEject returns how many endpoints may be out on top of those that the gateway took out itself: a share of all, but
// at least one while none is out.
func mayEject(percent, available, total int) int {
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
		if out := h.tracked[e.Addr].outUntil(cfg); now < out {
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
		if out := h.tracked[e.Addr].outUntil(cfg); now < out && out >= from && may > 0 {
			may--
			continue
		}
		left = append(left, e)
	}
	return left
}

// fleet returns the failure rate of the endpoint in the middle, t left out if there is one: what most do is no fault
// of one.
func (h *Health) fleet(now time.Duration, t *tracked) float64 {
	return h.middle(t, func(t *tracked) float64 { return t.failing(now) })
}

// middle returns a rate of the endpoint in the middle, t left out if there is one.
func (h *Health) middle(t *tracked, rate func(*tracked) float64) float64 {
	var rates [comparedTo]float64
	n, step := 0, max(1, (len(h.order)+comparedTo-1)/comparedTo)
	for i := 0; i < len(h.order); i += step {
		if other := h.order[i]; other != t {
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

// usual returns the failure rate that says nothing against an endpoint: that of the one in the middle, now or in the
// long run, and as much more as chance makes of the latter. What fails everywhere must weaken nobody: the endpoint
// that a request has just failed at is not worse than the others, which have failed a moment ago.
func (h *Health) usual(now time.Duration) float64 {
	const chance = 3 // standard deviations of the moving average
	often := h.middle(nil, func(t *tracked) float64 { return t.often })
	spread := chance * math.Sqrt(often*(1-often)*failureDecay/(2-failureDecay))
	return max(h.fleet(now, nil), min(often+spread, 1))
}

// factor is the share of its weight that an endpoint has at the moment.
func (t *tracked) factor(now time.Duration, usual float64) float64 {
	well := min(1, (1-t.failing(now))/max(1-usual, leastFactor))
	return max(well*well, leastFactor)
}

// changes says whether time changes what the endpoint gets.
func (t *tracked) changes(now time.Duration) bool { return now < t.until || t.failing(now) > 0 }
