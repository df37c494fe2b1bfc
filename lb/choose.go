package lb

import "math"

// Full is what [Choose] returns when no candidate has room.
const Full = -1

// Choose returns the index of the candidate that costs least with the request on it, or [Full] when all are at their
// cap:
//
//	cost(c) = c.Base + (c.Slope * (load(c) + p.PerRequest * requests(c)) + c.Steep * beyond(c)) / c.Weight
//	          - p.Prefix.Credit * (1 + p.Prefix.Wait * fewest) * worth(c)
//
// where load is what c carries over all owners and what this request brings, both in the plan's unit, requests is how
// many there are then, beyond is how much of the load is more than c.Room, fewest is how many requests there are
// before at the candidate with the fewest, of those below their cap, and worth is what it is worth to have the
// part of the prompt that c has in its cache, 1 at most for all of it. Counting the request itself makes an idle
// endpoint of twice the weight win over an idle one of weight 1. Equal costs are settled evenly by the lower 32 of the
// plan's random bits. loads[i], and matched[i], the number of the prompt's blocks that are cached, belong to
// p.Candidates[i]; matched is nil when nothing is cached anywhere.
func Choose(p *Plan, loads []Load, matched []int) int {
	added, credit := p.added(), p.credit(loads, matched)
	ties, least := 0, 0.0
	for i := range p.Candidates {
		c := &p.Candidates[i]
		if c.full(loads[i]) {
			continue
		}
		cost := p.cost(c, loads[i], added) - p.discount(credit, matched, i)
		switch {
		case ties == 0 || cost < least:
			ties, least = 1, cost
		case cost == least:
			ties++
		}
	}
	if ties == 0 {
		return Full
	}
	skip := int(uint32(p.Random) % uint32(ties))
	for i := range p.Candidates {
		c := &p.Candidates[i]
		if c.full(loads[i]) || p.cost(c, loads[i], added)-p.discount(credit, matched, i) != least {
			continue
		}
		if skip == 0 {
			return i
		}
		skip--
	}
	return Full
}

// maxCreditGain is how many times as much as its credit a prompt is worth at most, however many requests are in flight.
const maxCreditGain = 16

// credit returns by how much the cost is lower where all of the prompt is cached.
func (p *Plan) credit(loads []Load, matched []int) float64 {
	if matched == nil || p.Prefix.CreditGrowth <= 0 {
		return p.Prefix.Credit
	}
	fewest := int64(math.MaxInt64)
	for i := range p.Candidates {
		if !p.Candidates[i].full(loads[i]) {
			fewest = min(fewest, loads[i].Requests)
		}
	}
	return p.Prefix.Credit * min(1+float64(p.Prefix.CreditGrowth*float64(fewest)), maxCreditGain)
}

func (c *Candidate) full(l Load) bool { return c.Cap > 0 && l.Requests >= c.Cap }

// cost is what a candidate costs with the plan's request, which adds so much, on top of its load.
func (p *Plan) cost(c *Candidate, l Load, added float64) float64 {
	return c.cost(l.in(p.Unit)+added, float64(p.PerRequest*(l.Requests+1)))
}

// cost is what the candidate costs with the given load on it, and with slots that count beside it, in the plan's unit.
// Both are whole numbers, so that their sum is exact.
func (c *Candidate) cost(load, slots float64) float64 {
	cost := c.Base + c.Slope*(load+slots)/c.Weight
	if c.OverSlope > 0 && load > c.Capacity {
		cost += c.OverSlope * (load - c.Capacity) / c.Weight
	}
	return cost
}

// discount is by how much candidate i costs less for what it has cached. It is rounded before it is taken off: a processor
// that does both in one step would settle ties in another way than a store in Redis.
func (p *Plan) discount(credit float64, matched []int, i int) float64 {
	if matched == nil {
		return 0
	}
	return float64(credit * p.Prefix.creditFraction(matched[i]))
}
