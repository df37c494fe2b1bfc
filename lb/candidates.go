package lb

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// refreshEvery is how often candidates are recomputed while they change with time alone.
	refreshEvery = 100 * time.Millisecond
	// maxListAge is how often candidates are recomputed while nothing changes.
	maxListAge = 5 * time.Second
	// maxCandidateLists is for how many configurations and views candidates are kept.
	maxCandidateLists = 1024
)

// candidateKey is what a list of candidates depends on. Rules with different subsets of endpoints have different views.
type candidateKey struct {
	config *ClusterConfig
	view   *View
}

// candidateList is the result for one key.
type candidateList struct {
	validUntil time.Duration
	version    uint64 // of the health
	reason     Reason
	tiers      []tier      // tiers of the candidates
	base       List        // for requests that are not drawn for endpoints in slow start
	starting   []startList // for those that are, in the order of their draws
}

// Candidates returns the endpoints of the view that may get a request, with their weights. The reason is ReasonChosen,
// or why there are no candidates. draw holds the request's random bits: bits 32 to 47 draw the tier, bits 48 to 63
// whether the request is for an endpoint in slow start; [Choose] uses the others.
func (h *Health) Candidates(now time.Duration, v *View, config *ClusterConfig, draw uint64) (List, Reason) {
	l := h.list(now, v, config)
	if l.reason != ReasonChosen {
		return List{}, l.reason
	}
	tier := drawTier(l.tiers, draw)
	if l.tiers[tier].panics {
		return List{}, ReasonPanicThreshold
	}
	return l.pick(tier, float64(draw>>48)/(1<<16)), ReasonChosen
}

// list returns the list for the view, up to date.
func (h *Health) list(now time.Duration, v *View, config *ClusterConfig) *candidateList {
	key := candidateKey{config, v}
	l, known := h.lists.Get(now, key)
	if !known {
		l = &candidateList{}
		h.lists.Put(now, key, l)
	}
	if l.version != h.version || now >= l.validUntil {
		h.updateView(now, v)
		h.rebuild(now, v, config, l)
	}
	return l
}

// pick returns the candidates for a request of the tier whose draw is u, from 0 to 1.
func (l *candidateList) pick(tier uint8, u float64) List {
	for i := range l.starting {
		if s := &l.starting[i]; s.tier == tier && u < s.upTo {
			return s.list
		}
	}
	return l.base
}

// requestTier returns the tiers of the list for the view, and which of them the request is drawn for.
func (h *Health) requestTier(now time.Duration, v *View, config *ClusterConfig, draw uint64) ([]tier, uint8) {
	tiers := h.list(now, v, config).tiers
	return tiers, drawTier(tiers, draw)
}

// rebuild recomputes a list.
func (h *Health) rebuild(now time.Duration, v *View, config *ClusterConfig, l *candidateList) {
	*l = candidateList{validUntil: now + maxListAge, version: h.version}
	cs, tiers, reason := h.eligible(now, v, config)
	if l.tiers, l.reason = tiers, reason; reason == ReasonChosen {
		normalizeWeights(cs, len(tiers))
		baseline := h.baselineFailureRate(now)
		for i := range cs {
			cs[i].Weight *= h.endpoints[cs[i].Addr].weightFactor(now, baseline)
		}
		h.addSlowStart(now, cs, config, l)
	}
	changing := slices.ContainsFunc(h.current, func(e *endpointHealth) bool { return e.changesWithTime(now) })
	if l.starting != nil || changing {
		l.validUntil = now + refreshEvery
	}
}

// invalidate has all lists recomputed when they are next used.
func (h *Health) invalidate() { h.version++ }

// equal reports whether all fields are equal, maps by their content.
func (cfg *ClusterConfig) equal(other *ClusterConfig) bool {
	return cfg.Unit == other.Unit && cfg.MaxInflight == other.MaxInflight &&
		cfg.MaxInflightTokens == other.MaxInflightTokens && cfg.ZonePenalty == other.ZonePenalty &&
		cfg.Health == other.Health && maps.Equal(cfg.Weights, other.Weights)
}

// normalizeWeights divides the weights of each tier by their contraharmonic mean, Σw²/Σw: the expected weight at the
// endpoint of a request. So costs do not depend on the unit of configured weights. Of the common means this one
// moves least when an endpoint is added that is like many others or has a small weight; the median and the arithmetic
// mean jump. The result is rounded to 21 binary digits, because the division must not make equal weights differ in the
// last.
func normalizeWeights(cs []Candidate, tiers int) {
	sum, squares := make([]float64, tiers), make([]float64, tiers)
	for i := range cs {
		w, t := cs[i].Weight, cs[i].Tier
		sum[t], squares[t] = sum[t]+w, squares[t]+w*w
	}
	for i := range cs {
		const half = 1 << 31
		t := cs[i].Tier
		weight := math.Float64bits(cs[i].Weight * sum[t] / squares[t])
		cs[i].Weight = math.Float64frombits((weight + half) &^ (2*half - 1))
	}
}
