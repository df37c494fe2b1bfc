package health

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

const (
	// maxListAge is how often candidates are recomputed while nothing changes.
	maxListAge = 5 * time.Second
	// maxCandidateLists is for how many configurations and views candidates are kept.
	maxCandidateLists = 1024
)

// candidateKey is what a list of candidates depends on. Rules with different subsets of endpoints have different views.
type candidateKey struct {
	config *ClusterConfig
	view   *lb.View
}

// candidateList is the result for one key.
type candidateList struct {
	validUntil time.Duration
	version    uint64 // of the health
	reason     lb.Reason
	tiers      []tier      // tiers of the candidates
	base       lb.List     // for requests that are not drawn for endpoints in slow start
	starting   []startList // for those that are, in the order of their draws
}

// Candidates returns the endpoints of the view that may get a request, with their weights. The reason is ReasonChosen,
// or why there are no candidates. draw holds the request's random bits: bits 32 to 47 draw the tier, bits 48 to 63
// whether the request is for an endpoint in slow start; [lb.Choose] uses the others.
func (h *Health) Candidates(now time.Duration, v *lb.View, config *ClusterConfig, draw uint64) (lb.List, lb.Reason) {
	l := h.list(now, v, config)
	if l.reason != lb.ReasonChosen {
		return lb.List{}, l.reason
	}
	tier := drawTier(l.tiers, draw)
	if l.tiers[tier].panics {
		return lb.List{}, lb.ReasonPanicThreshold
	}
	return l.pick(tier, float64(draw>>48)/(1<<16)), lb.ReasonChosen
}

// Usable returns the endpoints of the view that may get a request, with their weights: those in slow start included.
// There are none where the gateway decides.
func (h *Health) Usable(now time.Duration, v *lb.View, config *ClusterConfig) []lb.Candidate {
	return h.list(now, v, config).base.Candidates
}

// list returns the list for the view, up to date.
func (h *Health) list(now time.Duration, v *lb.View, config *ClusterConfig) *candidateList {
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
func (l *candidateList) pick(tier uint8, u float64) lb.List {
	for i := range l.starting {
		if s := &l.starting[i]; s.tier == tier && u < s.upTo {
			return s.list
		}
	}
	return l.base
}

// RequestTier returns which tier of the list for the view the request is drawn for, how many candidates that tier has,
// and how many tiers there are.
func (h *Health) RequestTier(
	now time.Duration, v *lb.View, config *ClusterConfig, draw uint64,
) (tier uint8, size, tiers int) {
	all := h.list(now, v, config).tiers
	tier = drawTier(all, draw)
	return tier, all[tier].size, len(all)
}

// OneConfig returns one configuration for all equal ones, so that policies share lists of candidates.
func (h *Health) OneConfig(config *ClusterConfig) *ClusterConfig {
	alone := *config // without what it is a part of
	return h.configs.One(&alone)
}

// rebuild recomputes a list.
func (h *Health) rebuild(now time.Duration, v *lb.View, config *ClusterConfig, l *candidateList) {
	*l = candidateList{validUntil: now + maxListAge, version: h.version}
	cs, tiers, reason := h.eligible(now, v, config)
	if l.tiers, l.reason = tiers, reason; reason == lb.ReasonChosen {
		normalizeWeights(cs, len(tiers))
		baseline := h.baselineFailureRate(now)
		for i := range cs {
			cs[i].Weight *= h.of(cs[i].Addr).weightFactor(now, baseline)
		}
		h.addSlowStart(now, cs, config, l)
	}
	changing := slices.ContainsFunc(h.current, func(e *endpointHealth) bool { return e.changesWithTime(now) })
	if l.starting != nil || changing {
		l.validUntil = now + lb.RefreshEvery
	}
	if first := config.Health.FirstWait; v.IsNew(now, first) {
		l.validUntil = min(l.validUntil, v.CameAt+first)
	}
}

// eligible returns the endpoints of the view that may get a request, with their costs while healthy, and their tiers;
// or the reason why there are none. An endpoint ejected here is unusable like one ejected by the gateway, but does not
// count for the panic threshold: in panic mode the gateway would send requests to it.
func (h *Health) eligible(now time.Duration, v *lb.View, config *ClusterConfig) ([]lb.Candidate, []tier, lb.Reason) {
	if len(v.Endpoints) == 0 {
		return nil, nil, lb.ReasonNoEndpoints
	}
	list := usable(v)
	if len(list) == 0 {
		return nil, nil, lb.ReasonNoHealthyEndpoint
	}
	gatewayCounts, total := countPriorities(v, list)
	may := maxEjections(config.Health.MaxEjectionPercent, countServers(list), total)
	if list = h.withoutEjected(now, list, &config.Health, may); len(list) == 0 {
		return nil, nil, lb.ReasonNoHealthyEndpoint
	}
	counts, _ := countPriorities(v, list)
	tiers := splitLoad(counts)
	if !v.IsNew(now, config.Health.FirstWait) { // else requests wait for the healthy ones
		config.Health.markPanic(tiers, gatewayCounts)
	}
	if !slices.ContainsFunc(tiers, func(t tier) bool { return !t.panics }) {
		return nil, nil, lb.ReasonPanicThreshold
	}
	return config.candidates(v, list, tiers), tiers, lb.ReasonChosen
}

// invalidate has all lists recomputed when they are next used.
func (h *Health) invalidate() { h.version++ }

// normalizeWeights divides the weights of each tier by their contraharmonic mean, Σw²/Σw: the expected weight at the
// endpoint of a request. So costs do not depend on the unit of configured weights. Of the common means this one
// moves least when an endpoint is added that is like many others or has a small weight; the median and the arithmetic
// mean jump. The result is rounded to 21 binary digits, because the division must not make equal weights differ in the
// last.
func normalizeWeights(cs []lb.Candidate, tiers int) {
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
