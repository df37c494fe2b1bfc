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
	// leastStart is the part of its fair share that an endpoint begins with.
	leastStart = 0.05
	// startGroups is how many groups of new endpoints are drawn for: those that came at about the same time are one.
	startGroups = 8
	// ahead is how many requests a new endpoint is ahead in those that are drawn for it: it gets them when no other
	// carries less.
	ahead = 0.5
	// More than what is known of the load of endpoints counts for moreShare of it at once, less for lessShare: the load
	// may be rising.
	moreShare, lessShare = 1.0 / 2, 1.0 / 16
)

// favour is the list of the requests that are drawn for a group of new endpoints.
type favour struct {
	tier       uint8   // of requests that are meant for it
	below      float64 // draws from that of the group before
	candidates []Candidate
}

// ObserveGrant notes where a request was placed, with all load that is there now. New endpoints say nothing of what others
// carry.
func (h *Health) ObserveGrant(c *Candidate, l Load) {
	if t := h.tracked[c.Addr]; t == nil || t.starts {
		return
	}
	for unit, known := range h.placed {
		latest := l.in(Unit(unit)) / c.Weight
		most := 2*known + 2*latest/float64(max(1, l.Requests))
		if more := min(latest, most) - known; more > 0 {
			h.placed[unit] += more * moreShare
		} else {
			h.placed[unit] += more * lessShare
		}
	}
}

// carried returns what endpoints of weight 1 carry, one request more than was seen of late, and what a request is of
// it. What hardly differs is the same list.
func (h *Health) carried(unit Unit) (all, request float64) {
	request = 1
	if unit == Tokens {
		request = coarse(max(1, h.placed[Tokens]/max(1, h.placed[Requests])), 0)
	}
	return 1.25*coarse(h.placed[unit], 2) + request, request
}

// start returns which part of its fair share an endpoint gets, and since when it has been there.
func (t *tracked) start(now time.Duration, cfg *HealthConfig) (part float64, since time.Duration) {
	since, slow := t.since, t.slow
	if until := t.outUntil(cfg); until > since {
		since, slow = until, true
	}
	if in := now - since; slow && in < cfg.SlowStart {
		return max(leastStart, float64(in)/float64(cfg.SlowStart)), since
	}
	return 1, since
}

// slowStart completes a list: what it is for requests that are drawn for new endpoints, and for all others.
func (h *Health) slowStart(now time.Duration, cs []Candidate, terms *ClusterConfig, l *candidateList) {
	parts := make([]float64, len(cs)) // 0 for those that are not new
	var groups [startGroups + 1][]int
	all, request := h.carried(terms.Unit)
	for i := range cs {
		t := h.tracked[cs[i].Addr]
		part, since := t.start(now, &terms.Health)
		if t.starts = part < 1; t.starts {
			at := since / max(1, terms.Health.SlowStart/startGroups) % (startGroups + 1)
			parts[i], groups[at] = part, append(groups[at], i)
			cs[i].Base += all
		}
	}
	l.rest = h.made.keep(now, cs)
	for tier := range l.tiers {
		l.draw(uint8(tier), groups[:], parts, func(c *Candidate) { c.Base -= all + ahead*request })
	}
	for i := range l.drawn {
		l.drawn[i].candidates = h.made.keep(now, l.drawn[i].candidates)
	}
}

// draw adds the lists of requests that are meant for a tier: for each group, one in which those of the tier are
// preferred.
func (l *candidateList) draw(tier uint8, groups [][]int, parts []float64, prefer func(c *Candidate)) {
	whole, fresh := 0.0, 0.0
	for i := range l.rest {
		if l.rest[i].Tier == tier {
			whole += l.rest[i].Weight
			if parts[i] > 0 {
				fresh += l.rest[i].Weight
			}
		}
	}
	below := 0.0
	for _, members := range groups {
		var preferred []Candidate
		for _, i := range members {
			if l.rest[i].Tier != tier {
				continue
			}
			if preferred == nil {
				preferred = slices.Clone(l.rest)
			}
			prefer(&preferred[i])
			// The more it carries, the more often one of the others carries less.
			again := parts[i] * parts[i] / 2 * (1 - fresh/whole)
			below += parts[i] * (1 + again) * preferred[i].Weight / whole
		}
		if preferred != nil {
			l.drawn = append(l.drawn, favour{tier, below, preferred})
		}
	}
}
