package lb

import (
	"slices"
	"time"
)

// A new endpoint is given a share of requests that grows with time. A weight that grows would not do that: with little
// of it, it gets nothing until all others are loaded as many times as much. So the share is drawn: of all requests, as
// many as its part of the fair share are drawn for the new endpoint. For these it is preferred to those that carry as
// much as it does; for all others it is as if it carried the load of the others beside its own. So it never carries
// more than they do, it gets what others are too full for, and prompts that it has in its cache come back to it.
const (
	// minStartShare is the part of its fair share that an endpoint begins with.
	minStartShare = 0.05
	// startGroups is how many groups of new endpoints are drawn for: those that came at about the same time are one.
	startGroups = 8
	// startBonus is how many requests a new endpoint is ahead in those that are drawn for it: it gets them when no other
	// carries less.
	startBonus = 0.5
	// More than what is known of the load of endpoints counts for moreShare of it at once, less for lessShare: the load
	// may be rising.
	risingGain, fallingGain = 1.0 / 2, 1.0 / 16
)

// startList is the list of the requests that are drawn for a group of new endpoints.
type startList struct {
	tier       uint8   // of requests that are meant for it
	upTo       float64 // draws from that of the group before
	candidates []Candidate
}

// ObserveGrant notes where a request was placed, with all load that is there now. New endpoints say nothing of what others
// carry.
func (h *Health) ObserveGrant(c *Candidate, l Load) {
	if t := h.endpoints[c.Addr]; t == nil || t.starting {
		return
	}
	for unit, known := range h.meanLoad {
		latest := l.in(Unit(unit)) / c.Weight
		most := 2*known + 2*latest/float64(max(1, l.Requests))
		if more := min(latest, most) - known; more > 0 {
			h.meanLoad[unit] += more * risingGain
		} else {
			h.meanLoad[unit] += more * fallingGain
		}
	}
}

// typicalLoad returns what endpoints of weight 1 carry, one request more than was seen of late, and what a request is of
// it. What hardly differs is the same list.
func (h *Health) typicalLoad(unit Unit) (all, request float64) {
	request = 1
	if unit == Tokens {
		request = roundDigits(max(1, h.meanLoad[Tokens]/max(1, h.meanLoad[Requests])), 0)
	}
	return 1.25*roundDigits(h.meanLoad[unit], 2) + request, request
}

// startShare returns which part of its fair share an endpoint gets, and since when it has been there.
func (t *endpointHealth) startShare(now time.Duration, cfg *HealthConfig) (part float64, since time.Duration) {
	since, slow := t.firstSeen, t.startsSlowly
	if until := t.ejectedUntil(cfg); until > since {
		since, slow = until, true
	}
	if in := now - since; slow && in < cfg.SlowStart {
		return max(minStartShare, float64(in)/float64(cfg.SlowStart)), since
	}
	return 1, since
}

// addSlowStart completes a list: what it is for requests that are drawn for new endpoints, and for all others.
func (h *Health) addSlowStart(now time.Duration, cs []Candidate, terms *ClusterConfig, l *candidateList) {
	parts := make([]float64, len(cs)) // 0 for those that are not new
	var groups [startGroups + 1][]int
	all, request := h.typicalLoad(terms.Unit)
	for i := range cs {
		t := h.endpoints[cs[i].Addr]
		part, since := t.startShare(now, &terms.Health)
		if t.starting = part < 1; t.starting {
			at := since / max(1, terms.Health.SlowStart/startGroups) % (startGroups + 1)
			parts[i], groups[at] = part, append(groups[at], i)
			cs[i].Base += all
		}
	}
	l.base = h.pool.intern(now, cs)
	for tier := range l.tiers {
		l.addStartLists(uint8(tier), groups[:], parts, func(c *Candidate) { c.Base -= all + startBonus*request })
	}
	for i := range l.starting {
		l.starting[i].candidates = h.pool.intern(now, l.starting[i].candidates)
	}
}

// addStartLists adds the lists of requests that are meant for a tier: for each group, one in which those of the tier are
// preferred.
func (l *candidateList) addStartLists(tier uint8, groups [][]int, parts []float64, prefer func(c *Candidate)) {
	whole, fresh := 0.0, 0.0
	for i := range l.base {
		if l.base[i].Tier == tier {
			whole += l.base[i].Weight
			if parts[i] > 0 {
				fresh += l.base[i].Weight
			}
		}
	}
	below := 0.0
	for _, members := range groups {
		var preferred []Candidate
		for _, i := range members {
			if l.base[i].Tier != tier {
				continue
			}
			if preferred == nil {
				preferred = slices.Clone(l.base)
			}
			prefer(&preferred[i])
			// The more it carries, the more often one of the others carries less.
			again := parts[i] * parts[i] / 2 * (1 - fresh/whole)
			below += parts[i] * (1 + again) * preferred[i].Weight / whole
		}
		if preferred != nil {
			l.starting = append(l.starting, startList{tier, below, preferred})
		}
	}
}
