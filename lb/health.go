package lb

import (
	"encoding/binary"
	"math"
	"slices"
	"time"
)

// HealthConfig sets how endpoints are judged by the requests they were given. The zero value of a field switches that
// part off.
type HealthConfig struct {
	ConsecutiveFailures int           // failures in a row that eject an endpoint
	EjectionTime        time.Duration // of the first ejection; doubles with each further one
	MaxEjectionTime     time.Duration // the longest ejection
	MaxEjectionPercent  int           // share of the endpoints that may be ejected at once; at least one may
	SlowStart           time.Duration // in which a new or returned endpoint grows to its full weight
	PanicThreshold      int           // percent of healthy endpoints below which native balancing decides
}

const (
	// failureDecay is the weight of the newest outcome in an endpoint's failure rate.
	failureDecay = 0.3
	// rateHalfLife is how fast a failure rate is forgotten while there are no outcomes. Without it an endpoint that lost
	// its weight would hardly ever be tried again, and never learn that it is well.
	rateHalfLife = 5 * time.Second
	// leastFactor keeps a failing or new endpoint from vanishing altogether: it must be able to prove itself.
	leastFactor = 0.02
	// forgiveAfter is how long an endpoint must have stayed in before its earlier ejections are forgotten.
	forgiveAfter = 5 * time.Minute
	// refreshEvery is how often candidates are computed anew while time alone changes them.
	refreshEvery = 100 * time.Millisecond
)

// Health judges the endpoints of one cluster by what became of the requests they were given: endpoints that fail lose
// weight at once, so that failing fast attracts nothing, and are ejected after failures in a row; endpoints that are
// new or return start slowly. One VM has one Health per cluster; ejections travel between VMs by Export and Import.
type Health struct {
	cfg     HealthConfig
	tracked map[string]*tracked
	begun   bool // the first view was seen: what comes later is new

	view    *View
	terms   *Terms
	until   time.Duration // the candidates are good until then
	cached  []Candidate
	reason  Reason
	changed bool // an ejection to export
	ejected uint64
}

type tracked struct {
	failures  int           // in a row
	rate      float64       // of failures, moving average, as it was at the last outcome
	at        time.Duration // of the last outcome
	ejections int           // so far, sets the time of the next one
	until     time.Duration // ejected until then
	since     time.Duration // in service since; slow start counts from here
	slow      bool          // is to start slowly
	seen      bool          // in the current view
}

// Terms is what the configuration says of a cluster's endpoints.
type Terms struct {
	MaxInflight int64              // requests in flight per endpoint of weight 1, 0 for no cap
	Weights     map[string]float64 // by address, over what the gateway says
}

// NewHealth returns the health of a cluster of which nothing is known.
func NewHealth(cfg HealthConfig) *Health {
	return &Health{cfg: cfg, tracked: map[string]*tracked{}}
}

// Configure changes the settings; what is known of the endpoints stays.
func (h *Health) Configure(cfg HealthConfig) {
	h.cfg, h.view = cfg, nil
}

// Ejections returns how many ejections were decided here.
func (h *Health) Ejections() uint64 { return h.ejected }

// Observe learns from the outcome of a request.
func (h *Health) Observe(now time.Duration, o Outcome) {
	t, ok := h.tracked[o.Addr]
	if !ok || o.Verdict == Neutral {
		return
	}
	bad := 0.0
	if o.Verdict != Success {
		bad = 1
	}
	before := t.failing(now)
	t.rate, t.at = before+failureDecay*(bad-before), now
	switch o.Verdict {
	case Failure:
		t.failures++
		if h.cfg.ConsecutiveFailures > 0 && t.failures >= h.cfg.ConsecutiveFailures && now >= t.until {
			h.eject(now, t)
		}
	case Success:
		t.failures = 0
		if t.ejections > 0 && now-t.until > forgiveAfter {
			t.ejections = 0
		}
	}
	if before > 0 || bad > 0 {
		h.view = nil
	}
}

// failing is the failure rate as it is now, 0 once it is too small to matter.
func (t *tracked) failing(now time.Duration) float64 {
	rate := t.rate
	if rate > 0 {
		rate *= math.Exp2(-float64(max(0, now-t.at)) / float64(rateHalfLife))
	}
	if rate < 0.01 {
		return 0
	}
	return rate
}

func (h *Health) eject(now time.Duration, t *tracked) {
	out := h.cfg.EjectionTime << min(t.ejections, 20)
	if h.cfg.MaxEjectionTime > 0 && (out > h.cfg.MaxEjectionTime || out <= 0) {
		out = h.cfg.MaxEjectionTime
	}
	t.ejections++
	t.until = now + out
	// One more failure after the return is enough to go again.
	t.failures = h.cfg.ConsecutiveFailures - 1
	t.since, t.slow = t.until, true
	h.view, h.changed = nil, true
	h.ejected++
}

// Candidates returns the endpoints of the view that may take a request, with their weights. The slice is shared: it
// stays the same until the view, the terms, the health or the time changes it. The reason is ReasonChosen, or says why
// there are no candidates.
func (h *Health) Candidates(now time.Duration, v *View, terms *Terms) ([]Candidate, Reason) {
	if h.view == v && now < h.until && h.terms == terms {
		return h.cached, h.reason
	}
	h.follow(now, v)
	h.view, h.terms, h.until = v, terms, now+refreshEvery
	h.cached, h.reason = h.candidates(now, v, terms)
	return h.cached, h.reason
}

// follow notices endpoints that came and forgets those that have been gone.
func (h *Health) follow(now time.Duration, v *View) {
	for _, t := range h.tracked {
		t.seen = false
	}
	for i := range v.Endpoints {
		addr := v.Endpoints[i].Addr
		t, ok := h.tracked[addr]
		if !ok {
			t = &tracked{since: now, slow: h.begun}
			h.tracked[addr] = t
		}
		t.seen = true
	}
	h.begun = h.begun || len(v.Endpoints) > 0
	for addr, t := range h.tracked {
		if !t.seen && now >= t.until { // an ejected endpoint that flaps must not come back clean
			delete(h.tracked, addr)
		}
	}
}

func (h *Health) candidates(now time.Duration, v *View, terms *Terms) ([]Candidate, Reason) {
	if len(v.Endpoints) == 0 {
		return nil, ReasonNoEndpoints
	}
	usable, total := h.usable(v)
	switch {
	case len(usable) == 0:
		return nil, ReasonNoHealthyEndpoint
	case len(usable)*100 < h.cfg.PanicThreshold*total:
		return nil, ReasonPanicThreshold
	}
	usable = h.withoutEjected(now, usable)
	out := make([]Candidate, 0, len(usable))
	for _, e := range usable {
		weight := e.Weight
		if w, ok := terms.Weights[e.Addr]; ok {
			weight = w
		}
		if weight <= 0 {
			weight = 1
		}
		c := Candidate{Addr: e.Addr, Slope: 1, Weight: weight * h.factor(now, h.tracked[e.Addr])}
		if terms.MaxInflight > 0 {
			c.Cap = max(1, int64(math.Round(float64(terms.MaxInflight)*weight)))
		}
		out = append(out, c)
	}
	return out, ReasonChosen
}

// usable returns the endpoints that the gateway would use, healthy ones before degraded ones, and how many there are
// that do not leave.
func (h *Health) usable(v *View) (usable []*Endpoint, total int) {
	for _, want := range []State{Healthy, Degraded} {
		for i := range v.Endpoints {
			if v.Endpoints[i].State == want {
				usable = append(usable, &v.Endpoints[i])
			}
		}
		if len(usable) > 0 {
			break
		}
	}
	for i := range v.Endpoints {
		if v.Endpoints[i].State != Draining {
			total++
		}
	}
	return usable, total
}

// withoutEjected leaves out the ejected endpoints, those that stay out longest first, but never more than the
// configured share.
func (h *Health) withoutEjected(now time.Duration, usable []*Endpoint) []*Endpoint {
	var until []time.Duration
	for _, e := range usable {
		if t := h.tracked[e.Addr]; now < t.until {
			until = append(until, t.until)
		}
	}
	may := min(max(1, len(usable)*h.cfg.MaxEjectionPercent/100), len(usable)-1)
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

// factor is the share of its weight that an endpoint has at the moment.
func (h *Health) factor(now time.Duration, t *tracked) float64 {
	well := 1 - t.failing(now)
	f := well * well
	if in := now - t.since; t.slow && h.cfg.SlowStart > 0 && in < h.cfg.SlowStart {
		f *= max(0, float64(in)) / float64(h.cfg.SlowStart)
	}
	return max(f, leastFactor)
}

// ejectionSize is one entry of an export: address hash u64, until i64, ejections u64.
const ejectionSize = 24

// Export merges the ejections decided here since the last export into shared, which holds those of all VMs, and says
// whether it has changed. What has ended is dropped.
func (h *Health) Export(now time.Duration, shared []byte) ([]byte, bool) {
	if !h.changed {
		return shared, false
	}
	out := make([]byte, 0, len(shared)+ejectionSize)
	for ; len(shared) >= ejectionSize; shared = shared[ejectionSize:] {
		if time.Duration(binary.LittleEndian.Uint64(shared[8:])) > now {
			out = append(out, shared[:ejectionSize]...)
		}
	}
	for addr, t := range h.tracked {
		if t.until > now {
			out = binary.LittleEndian.AppendUint64(out, hashAddr(addr))
			out = binary.LittleEndian.AppendUint64(out, uint64(t.until))
			out = binary.LittleEndian.AppendUint64(out, uint64(t.ejections))
		}
	}
	return out, true
}

// Exported confirms that what Export returned was written.
func (h *Health) Exported() { h.changed = false }

// Import takes over the ejections that other VMs decided.
func (h *Health) Import(shared []byte) {
	for ; len(shared) >= ejectionSize; shared = shared[ejectionSize:] {
		hash := binary.LittleEndian.Uint64(shared)
		until := time.Duration(binary.LittleEndian.Uint64(shared[8:]))
		for addr, t := range h.tracked {
			if until > t.until && hashAddr(addr) == hash {
				t.until, t.ejections = until, int(binary.LittleEndian.Uint64(shared[16:]))
				t.since, t.slow = until, true
				t.failures = max(t.failures, h.cfg.ConsecutiveFailures-1)
				h.view = nil
			}
		}
	}
}
