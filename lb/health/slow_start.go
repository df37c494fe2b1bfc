package health

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// A new endpoint gets a share of the requests that grows with time. A growing weight would not achieve that: an
// endpoint with little weight gets nothing until the others carry a multiple of its load. So requests are drawn for it:
// a random share of them, its fair share times a part that grows to 1. For these it is preferred to endpoints with the
// same load. For all others it counts as if it carried the typical load of the others in addition to its own.
// So it never carries more load than they do, it takes what exceeds their capacity, and prompts that are in its cache
// return to it.
const (
	// minStartShare is the part of its fair share that an endpoint begins with.
	minStartShare = 0.05
	// startGroups bounds the lists for new endpoints: those that were added at about the same time share one.
	startGroups = 8
	// startBonus is the preference for a new endpoint, in requests in flight: it gets the requests drawn for it
	// unless another endpoint carries less load.
	startBonus = 0.5
	// A granted load above the known mean counts for risingGain, one below it for fallingGain: load may be rising.
	risingGain, fallingGain = 1.0 / 2, 1.0 / 16
)

// startList is the list of candidates for requests that are drawn for a group of new endpoints.
type startList struct {
	tier uint8   // tier of the requests
	upTo float64 // upper end of the draws for this list; they begin at the end of the previous list's
	list lb.List
}

// ObserveGrant records the load l of the plan's candidate that a request was placed on, as the plan weighs it: with
// what it adds for each request in flight. Endpoints in slow start are ignored: their load is not typical.
func (h *Health) ObserveGrant(p *lb.Plan, candidate int, l lb.Load) {
	c := &p.Candidates[candidate]
	if e := h.of(c.Addr); e == nil || e.starting {
		return
	}
	for unit, mean := range h.meanLoad {
		latest := l.In(lb.Unit(unit)) / c.Weight
		if lb.Unit(unit) == p.Unit {
			latest += float64(p.PerRequest*l.Requests) / c.Weight
		}
		highest := 2*mean + 2*latest/float64(max(1, l.Requests)) // twice the mean and two requests
		if more := min(latest, highest) - mean; more > 0 {
			h.meanLoad[unit] += more * risingGain
		} else {
			h.meanLoad[unit] += more * fallingGain
		}
	}
}

// typicalLoad returns the recent load of endpoints of weight 1 plus one request, and the load of a request. Both are
// rounded, so that a small change gives the same list; the factor 1.25 makes up for what rounding takes off.
func (h *Health) typicalLoad(unit lb.Unit) (load, request float64) {
	request = 1
	if unit == lb.Tokens {
		request = lb.RoundDigits(max(1, h.meanLoad[lb.Tokens]/max(1, h.meanLoad[lb.Requests])), 0)
	}
	return 1.25*lb.RoundDigits(h.meanLoad[unit], 2) + request, request
}

// startShare returns which part of its fair share the endpoint gets, from minStartShare to 1, and when its slow start
// began.
func (e *endpointHealth) startShare(now time.Duration, cfg *Config) (part float64, since time.Duration) {
	since, slow := e.firstSeen, e.startsSlowly
	if until := e.ejectedUntil(cfg); until > since {
		since, slow = until, true
	}
	if age := now - since; slow && age < cfg.SlowStart {
		return max(minStartShare, float64(age)/float64(cfg.SlowStart)), since
	}
	return 1, since
}

// addSlowStart completes a list: the candidates for requests that are drawn for new endpoints, and for all others.
func (h *Health) addSlowStart(now time.Duration, cs []lb.Candidate, config *ClusterConfig, l *candidateList) {
	parts := make([]float64, len(cs)) // of their fair share; 0 for endpoints that are not in slow start
	var groups [startGroups + 1][]int
	load, request := h.typicalLoad(config.Unit)
	for i := range cs {
		e := h.of(cs[i].Addr)
		part, since := e.startShare(now, &config.Health)
		if e.starting = part < 1; e.starting {
			at := since / max(1, config.Health.SlowStart/startGroups) % (startGroups + 1)
			parts[i], groups[at] = part, append(groups[at], i)
			cs[i].Base += load
		}
	}
	l.base = lb.NewList(cs)
	for tier := range l.tiers {
		l.addStartLists(uint8(tier), groups[:], parts, func(c *lb.Candidate) { c.Base -= load + startBonus*request })
	}
}

// addStartLists adds the lists for requests of a tier: one for each group of new endpoints, in which the group's
// endpoints of the tier are preferred.
func (l *candidateList) addStartLists(tier uint8, groups [][]int, parts []float64, prefer func(c *lb.Candidate)) {
	base := l.base.Candidates
	total, starting := 0.0, 0.0 // weights in the tier
	for i := range base {
		if base[i].Tier == tier {
			total += base[i].Weight
			if parts[i] > 0 {
				starting += base[i].Weight
			}
		}
	}
	upTo := 0.0
	for _, members := range groups {
		var preferred []lb.Candidate
		for _, i := range members {
			if base[i].Tier != tier {
				continue
			}
			if preferred == nil {
				preferred = slices.Clone(base)
			}
			prefer(&preferred[i])
			// Some draws go to an established endpoint that carries less load, more of them as the share grows.
			missed := parts[i] * parts[i] / 2 * (1 - starting/total)
			upTo += parts[i] * (1 + missed) * preferred[i].Weight / total
		}
		if preferred != nil {
			l.starting = append(l.starting, startList{tier, upTo, lb.NewList(preferred)})
		}
	}
}
