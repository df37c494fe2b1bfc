package lb

import (
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// refreshEvery is how often candidates are computed anew while time alone changes them.
	refreshEvery = 100 * time.Millisecond
	// unusedListTTL is how long a list that nobody uses is kept.
	unusedListTTL = 10 * time.Second
	// maxListAge is how often candidates are computed anew that nothing has changed.
	maxListAge = unusedListTTL / 2
)

// listKey names what the candidates of a request follow from. Configurations that say the same share their terms, rules
// that list different endpoints have different views.
type listKey struct {
	config *ClusterConfig
	view   *View
}

// candidateList is what was worked out for a key.
type candidateList struct {
	validUntil time.Duration // it is good until then
	lastUsed   time.Duration
	reason     Reason
	tiers      []tier      // that the candidates are in
	base       []Candidate // of a request that is not drawn for new endpoints
	starting   []startList // of one that is, in the order of their draws
}

// Candidates returns the endpoints of the view that may take a request, with their weights. The slice is shared, and
// it is the same as before as long as its content is: stores tell lists apart by where they are. The reason is
// ReasonChosen, or says why there are no candidates. draw is the request's random bits, of which [Choose] uses the
// lower 32: bits 32 to 47 draw the tier, bits 48 to 63 whether it is one of those for new endpoints.
func (h *Health) Candidates(now time.Duration, v *View, terms *ClusterConfig, draw uint64) ([]Candidate, Reason) {
	key := listKey{terms, v}
	l := h.candidateLists[key]
	if l == nil {
		l = &candidateList{}
		h.candidateLists[key] = l
	}
	l.lastUsed = now
	if now >= l.validUntil {
		h.dropUnusedLists(now)
		h.updateView(now, v)
		h.rebuild(now, v, terms, l)
	}
	if l.reason != ReasonChosen {
		return nil, l.reason
	}
	tier := drawTier(l.tiers, draw)
	if l.tiers[tier].panics {
		return nil, ReasonPanicThreshold
	}
	return l.pick(tier, float64(draw>>48)/(1<<16)), ReasonChosen
}

// pick returns the candidates of a request that is meant for the tier, and whose draw, from 0 to 1, is u.
func (l *candidateList) pick(tier uint8, u float64) []Candidate {
	for i := range l.starting {
		if f := &l.starting[i]; f.tier == tier && u < f.upTo {
			return f.candidates
		}
	}
	return l.base
}

// requestTier returns the tiers of the candidates that a request has, and which of them it is meant for.
func (h *Health) requestTier(v *View, terms *ClusterConfig, draw uint64) ([]tier, uint8) {
	tiers := h.candidateLists[listKey{terms, v}].tiers
	return tiers, drawTier(tiers, draw)
}

// rebuild works out a list.
func (h *Health) rebuild(now time.Duration, v *View, terms *ClusterConfig, l *candidateList) {
	l.validUntil, l.base, l.starting = now+maxListAge, nil, nil
	cs, tiers, reason := h.eligible(now, v, terms)
	if l.tiers, l.reason = tiers, reason; reason == ReasonChosen {
		normalizeWeights(cs, len(tiers))
		usual := h.baselineFailureRate(now)
		for i := range cs {
			cs[i].Weight *= h.endpoints[cs[i].Addr].weightFactor(now, usual)
		}
		h.addSlowStart(now, cs, terms, l)
	}
	if l.starting != nil || slices.ContainsFunc(h.current, func(t *endpointHealth) bool { return t.changesWithTime(now) }) {
		l.validUntil = now + refreshEvery
	}
}

// invalidate has all candidates worked out anew.
func (h *Health) invalidate() {
	for _, l := range h.candidateLists {
		l.validUntil = 0
	}
}

// dropUnusedLists forgets lists that are not used any more: of configurations and of views that others have replaced.
func (h *Health) dropUnusedLists(now time.Duration) {
	if now-h.sweptAt < unusedListTTL/10 {
		return
	}
	h.sweptAt = now
	clear(h.configs)
	for key, l := range h.candidateLists {
		if now-l.lastUsed > unusedListTTL {
			delete(h.candidateLists, key)
			continue
		}
		h.configs[key.config] = true
	}
	h.pool.sweep(now)
}

// internConfig returns the terms, the same for the same content: so that configurations that say the same share their lists.
func (h *Health) internConfig(t *ClusterConfig) *ClusterConfig {
	for known := range h.configs {
		if known.equal(t) {
			return known
		}
	}
	h.configs[t] = true
	return t
}

func (t *ClusterConfig) equal(other *ClusterConfig) bool {
	return t.Unit == other.Unit && t.MaxInflight == other.MaxInflight &&
		t.ZonePenalty == other.ZonePenalty && t.Health == other.Health &&
		maps.Equal(t.Weights, other.Weights)
}

// normalizeWeights makes weights relative: 1 is that of the endpoint that a request for its tier is likely to be at, the mean of
// all weights by weight. So costs do not depend on the unit in which capacities are configured; and the mean hardly
// moves when one of many alike comes or goes, or one with a small weight, as a median or a plain mean would. It is
// rounded, since what weights have in common must not show up in the last digit.
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

// listPool keeps lists of candidates for as long as they are used, each content once. When there are too many,
// those go that were made least recently: while endpoints fail, nearly every outcome makes a new list.
type listPool struct{ lists []pooledList }

type pooledList struct {
	candidates []Candidate
	lastMade   time.Duration // when it was last made
}

// maxPooledLists is how many lists are kept, and mostInPool how many candidates in all of them.
const maxPooledLists, maxPooledCandidates = 128, 1 << 15

// intern returns the list of the same content that was made before, else cs.
func (p *listPool) intern(now time.Duration, cs []Candidate) []Candidate {
	for i := range p.lists {
		if slices.Equal(p.lists[i].candidates, cs) {
			latest := pooledList{p.lists[i].candidates, now}
			p.lists = append(slices.Delete(p.lists, i, i+1), latest)
			return latest.candidates
		}
	}
	p.lists = append(p.lists, pooledList{cs, now})
	n, first := len(cs), len(p.lists)-1
	for first > 0 && len(p.lists)-first < maxPooledLists && n+len(p.lists[first-1].candidates) <= maxPooledCandidates {
		first--
		n += len(p.lists[first].candidates)
	}
	p.lists = slices.Delete(p.lists, 0, first)
	return cs
}

// sweep forgets what was not made for long. What is in use is made anew more often.
func (p *listPool) sweep(now time.Duration) {
	p.lists = slices.DeleteFunc(p.lists, func(l pooledList) bool { return now-l.lastMade > unusedListTTL })
}
