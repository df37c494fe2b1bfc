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
	// leastFactor keeps a failing or new endpoint from vanishing altogether: it must be able to prove itself.
	leastFactor = 0.02
	// refreshEvery is how often candidates are computed anew while time alone changes them.
	refreshEvery = 100 * time.Millisecond
)

// Health judges the endpoints of one cluster by what became of the requests they were given: endpoints that fail lose
// weight at once, so that failing fast attracts nothing, and are ejected when failures add up; endpoints that are
// new or return start slowly. A failure weighs as much as it says about the endpoint rather than about the request: see
// blame.go. One VM has one Health per cluster; ejections travel between VMs by Export and Import.
type Health struct {
	tracked map[string]*tracked
	order   []*tracked // those in the current view
	groups  map[groupKey]*group
	badAt   time.Duration // of the last bad outcome
	begun   bool          // the first view was seen: what comes later is new

	lists   []candidateList
	changed bool // an ejection to export
	ejected uint64
}

type tracked struct {
	suspicion               // whether to eject it
	rate      float64       // of bad outcomes by their weight, moving average, as it was at the last outcome
	at        time.Duration // of the last outcome
	ejections int           // so far, sets the time of the next one
	until     time.Duration // ejected until then
	since     time.Duration // in service since; slow start counts from here
	slow      bool          // is to start slowly
	seen      bool          // in the current view
}

// candidateList is what was worked out for one configuration.
type candidateList struct {
	terms      *Terms
	view       *View         // nil when something has changed
	until      time.Duration // it is good until then
	candidates []Candidate
	reason     Reason
}

// listsKept is how many configurations of a cluster have their candidates at hand.
const listsKept = 8

// Terms is what the configuration says of a cluster's endpoints.
type Terms struct {
	MaxInflight int64              // requests in flight per endpoint of weight 1, 0 for no cap
	Weights     map[string]float64 // by address, over what the gateway says
	Health      HealthConfig
}

// Weight returns the endpoint's capacity: what the terms say, else what the gateway says, else 1.
func (t *Terms) Weight(e *Endpoint) float64 {
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
func (t *Terms) weighted(v *View) bool {
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
	return &Health{tracked: map[string]*tracked{}, groups: map[groupKey]*group{}}
}

// Ejections returns how many ejections were decided here.
func (h *Health) Ejections() uint64 { return h.ejected }

// Candidates returns the endpoints of the view that may take a request, with their weights. The slice is shared, and it is
// the same as before as long as its content is: stores tell lists apart by where they are. The reason is ReasonChosen, or
// says why there are no candidates. draw is the request's random bits, of which [Choose] uses the lower 32: bits 32 to 47 draw
// the tier, bits 48 to 63 the new endpoints that the request may go to.
func (h *Health) Candidates(now time.Duration, v *View, terms *Terms, draw uint64) ([]Candidate, Reason) {
	l := h.list(terms)
	if l.view == v && now < l.until {
		return l.candidates, l.reason
	}
	h.follow(now, v)
	cs, reason := h.candidates(now, v, terms)
	if !slices.Equal(cs, l.candidates) {
		l.candidates = cs
	}
	l.view, l.until, l.reason = v, now+refreshEvery, reason
	return l.candidates, reason
}

// list returns what is at hand for the terms.
func (h *Health) list(terms *Terms) *candidateList {
	for i := range h.lists {
		if h.lists[i].terms == terms {
			return &h.lists[i]
		}
	}
	if len(h.lists) >= listsKept { // those of old configurations
		h.lists = h.lists[:0]
	}
	h.lists = append(h.lists, candidateList{terms: terms})
	return &h.lists[len(h.lists)-1]
}

// outdate has all candidates worked out anew.
func (h *Health) outdate() {
	for i := range h.lists {
		h.lists[i].view = nil
	}
}

// follow notices endpoints that came and forgets those that have been gone.
func (h *Health) follow(now time.Duration, v *View) {
	for _, t := range h.tracked {
		t.seen = false
	}
	h.order = h.order[:0]
	for i := range v.Endpoints {
		addr := v.Endpoints[i].Addr
		t, ok := h.tracked[addr]
		if !ok {
			t = &tracked{since: now, slow: h.begun}
			h.tracked[addr] = t
		}
		t.seen = true
		h.order = append(h.order, t)
	}
	h.begun = h.begun || len(v.Endpoints) > 0
	for addr, t := range h.tracked {
		if !t.seen && now >= t.until { // an ejected endpoint that flaps must not come back clean
			delete(h.tracked, addr)
		}
	}
}

// candidate returns what load costs on an endpoint. usual is how often the one in the middle fails.
func (h *Health) candidate(now time.Duration, e *Endpoint, usual float64, terms *Terms) Candidate {
	weight := terms.Weight(e)
	c := Candidate{Addr: e.Addr, Slope: 1, Weight: weight * factor(now, h.tracked[e.Addr], usual, terms.Health.SlowStart)}
	if terms.MaxInflight > 0 {
		c.Cap = max(1, int64(math.Round(float64(terms.MaxInflight)*weight)))
	}
	return c
}

// mayEject returns how many endpoints may be out on top of those that the gateway took out itself: a share of all, but at
// least one while none is out.
func mayEject(percent, available, total int) int {
	if percent <= 0 {
		return 0
	}
	return max(1, total*percent/100) - (total - available)
}

// withoutEjected leaves out the ejected endpoints, those that stay out longest first, but no more than may be out, and
// never all.
func (h *Health) withoutEjected(now time.Duration, usable []*Endpoint, may int) []*Endpoint {
	var until []time.Duration
	for _, e := range usable {
		if t := h.tracked[e.Addr]; now < t.until {
			until = append(until, t.until)
		}
	}
	may = min(may, len(usable)-1)
	if len(until) == 0 || may <= 0 {
		return usable
	}
	slices.Sort(until)
	from := until[max(0, len(until)-may)]
	out := make([]*Endpoint, 0, len(usable))
	for _, e := range usable {
		if t := h.tracked[e.Addr]; now < t.until && t.until >= from && may > 0 {
			may--
			continue
		}
		out = append(out, e)
	}
	return out
}

// factor is the share of its weight that an endpoint has at the moment, when the one in the middle fails with the usual rate.
func factor(now time.Duration, t *tracked, usual float64, slowStart time.Duration) float64 {
	well := min(1, (1-t.failing(now))/max(1-usual, leastFactor))
	f := well * well
	if in := now - t.since; t.slow && slowStart > 0 && in < slowStart {
		f *= max(0, float64(in)) / float64(slowStart)
	}
	return max(f, leastFactor)
}
