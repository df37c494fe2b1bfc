package lb

import "math"

// Full is what [Choose] returns when every candidate is at a cap.
const Full = -1

// Choose returns the index of the candidate at which the request costs least, or [Full] when all are at a cap, in
// requests or in tokens. It is the reference for every store: each one calls it or is compared with it by tests.
//
//	cost(c) = c.Base
//	        + c.Slope * (load + p.PerRequest * requests + p.Stall * missing * stalled) / c.Weight
//	        + c.OverSlope * over / c.Weight
//	        - p.Prefix.Credit * min(1 + p.Prefix.CreditGrowth * fewest, 16) * match
//
//	load      load of c in the plan's unit: what all owners have in flight there, plus this request
//	requests  number of requests of all owners in flight on c, plus one for this request
//	missing   the part of the prompt that c is not recorded to have, from 0 to 1
//	stalled   requests of all owners in flight on c that wait while it computes that: c.Capacity at most, and 32
//	over      max(0, requests - c.Capacity): the requests that have to wait in the engine
//	fewest    lowest number of requests in flight on any candidate that is not full; this request is not counted
//	match     the credited part of the prompt that c is recorded to have, from 0 to 2; see Prefix.CreditBytes
//
// The load includes this request, so that of two idle endpoints the one with twice the weight costs less. For fewest
// the candidates of all tiers count: while one tier is saturated and another is nearly idle, credits grow little. A
// cost that is no number counts as the highest.
//
// A plan whose [Home] has a load factor is placed by that instead, unless all candidates that it allows are full. Equal
// costs are settled by the order of the home, or else evenly by the lower 32 bits of p.Random. loads[i] and matched[i],
// the number of leading blocks that are cached, belong to p.Candidates[i]; matched is nil when nothing is cached
// anywhere.
func Choose(p *Plan, loads []Load, matched []int) int { return Decide(p, loads, matched).Index }

// Choice is what [Choose] returns, and what had nearly been chosen instead.
type Choice struct {
	Index int
	Why
}

// Decide is [Choose] with the reason for it.
func Decide(p *Plan, loads []Load, matched []int) Choice {
	if i, next := p.home(loads); i != Full {
		return Choice{i, Why{Rule: ByHome, RunnerUp: next}}
	}
	added, credit := p.Added(), p.credit(loads, matched)
	var tied [64]int32 // the first of those with the lowest cost
	ties, lowest := 0, math.Inf(1)
	other, next := Full, math.Inf(1) // the first of those with the second lowest cost, and that
	for i, l := range loads[:len(p.Candidates)] {
		c := &p.Candidates[i]
		if c.IsFull(l) {
			continue
		}
		stall := p.Stall
		if stall > 0 {
			stall = p.stall(matched, i)
		}
		cost := p.cost(c, l, added, stall) // total, in place: a call takes longer than this
		if matched != nil {
			cost -= p.discount(credit, matched, i)
		}
		if math.IsNaN(cost) {
			cost = math.Inf(1)
		}
		switch {
		case cost < lowest:
			if lowest < math.Inf(1) {
				other, next = int(tied[0]), lowest
			}
			ties, lowest = 0, cost
		case cost != lowest:
			if cost < next {
				other, next = i, cost
			}
			continue
		}
		if ties < len(tied) {
			tied[ties] = int32(i)
		}
		ties++
	}
	switch {
	case ties == 0:
		return Choice{Full, Why{Rule: ByCaps, RunnerUp: Full}}
	case ties == 1:
		return Choice{int(tied[0]), Why{ByCost, other, excess(next, lowest)}}
	}
	i, rule := p.settle(loads, ties, tied[:min(ties, len(tied))], func(i int) bool {
		return p.total(i, loads, matched, added, credit) == lowest
	})
	if other = int(tied[0]); other == i {
		other = int(tied[1])
	}
	return Choice{i, Why{Rule: rule, RunnerUp: other}}
}

// settle chooses among so many candidates with equal costs: the first of these are tied, others are known by their
// cost.
func (p *Plan) settle(loads []Load, ties int, tied []int32, isTied func(i int) bool) (int, Rule) {
	for _, i := range p.Home.Order {
		if !p.Candidates[i].IsFull(loads[i]) && isTied(int(i)) {
			return int(i), ByHome
		}
	}
	skip := int(uint32(p.Random) % uint32(ties))
	if skip < len(tied) {
		return int(tied[skip]), ByTie
	}
	skip -= len(tied)
	for i := int(tied[len(tied)-1]) + 1; i < len(p.Candidates); i++ {
		if p.Candidates[i].IsFull(loads[i]) || !isTied(i) {
			continue
		}
		if skip == 0 {
			return i, ByTie
		}
		skip--
	}
	return Full, ByTie
}

// home returns the candidate at which the request is placed by its home, and the one that would be next, [Full] if it
// has none, or if all candidates below their bounds are full.
func (p *Plan) home(loads []Load) (first, next int) {
	if p.Home.LoadFactor <= 0 {
		return Full, Full
	}
	first = Full
	total, weights := p.Added(), 0.0
	for _, i := range p.Home.Order {
		total += loads[i].In(p.Unit)
		weights += p.Candidates[i].Weight
	}
	unbound := math.IsInf(p.Home.LoadFactor, 1)
	limit := p.Home.LoadFactor * total / weights // of a candidate of weight 1
	for _, i := range p.Home.Order {
		c, l := &p.Candidates[i], loads[i]
		within := unbound || l.In(p.Unit) < limit*c.Weight || float64(l.Requests) < float64(p.Home.Free)*c.Weight
		switch {
		case !within || c.IsFull(l):
		case first == Full:
			first = int(i)
		default:
			return first, int(i)
		}
	}
	return first, Full
}

// Preferred returns the index of the candidate at which the request costs least whether or not it is full; of equal
// costs, one that is not full if there is one.
func Preferred(p *Plan, loads []Load, matched []int) int {
	added, credit := p.Added(), p.credit(loads, matched)
	best, lowest := Full, 0.0
	for i := range p.Candidates {
		c := &p.Candidates[i]
		cost := p.total(i, loads, matched, added, credit)
		if best == Full || cost < lowest ||
			cost == lowest && !c.IsFull(loads[i]) && p.Candidates[best].IsFull(loads[best]) {
			best, lowest = i, cost
		}
	}
	return best
}

// maxCreditGain bounds by how much CreditGrowth multiplies the credit, however many requests are in flight.
const maxCreditGain = 16

// credit returns the reduction of the cost for a full match.
func (p *Plan) credit(loads []Load, matched []int) float64 {
	if matched == nil || p.Prefix.CreditGrowth <= 0 {
		return p.Prefix.Credit
	}
	fewest := int64(math.MaxInt64)
	for i := range p.Candidates {
		if !p.Candidates[i].IsFull(loads[i]) {
			fewest = min(fewest, loads[i].Requests)
		}
	}
	return p.Prefix.Credit * min(1+float64(p.Prefix.CreditGrowth*float64(fewest)), maxCreditGain)
}

// IsFull reports whether the candidate is at a cap with load l. The request that is to be placed does not count, so
// that a candidate without requests takes one of any size.
func (c *Candidate) IsFull(l Load) bool {
	return c.Cap > 0 && l.Requests >= c.Cap || c.TokenCap > 0 && l.Tokens >= c.TokenCap
}

// total returns what the request costs at candidate i. What is no number counts as the highest cost.
func (p *Plan) total(i int, loads []Load, matched []int, added, credit float64) float64 {
	cost := p.cost(&p.Candidates[i], loads[i], added, p.stall(matched, i)) - p.discount(credit, matched, i)
	if math.IsNaN(cost) {
		return math.Inf(1)
	}
	return cost
}

// cost returns the cost of a candidate with load l and the plan's request, which adds the given load and stalls each
// request in flight by so much.
func (p *Plan) cost(c *Candidate, l Load, added, stall float64) float64 {
	return c.Base + p.load(c, l, added, stall) + c.over(l)
}

// load returns what is in flight costs, with the plan's request.
func (p *Plan) load(c *Candidate, l Load, added, stall float64) float64 {
	load := l.In(p.Unit) + added + float64(p.PerRequest*(l.Requests+1)) // whole numbers, so that their sum is exact
	if stall > 0 {
		load += float64(stall * c.stalled(l)) // rounded first, as in discount
	}
	return c.Slope * load / c.Weight
}

// maxStalled bounds how many requests wait for the prompt of another one. Where more are in flight, some of them wait
// for their own.
const maxStalled = 32

// stalled returns how many of the requests in flight the engine runs, so that they wait while it computes a prompt.
func (c *Candidate) stalled(l Load) float64 {
	requests := min(float64(l.Requests), maxStalled)
	if c.OverSlope > 0 {
		requests = max(0, min(requests, c.Capacity))
	}
	return requests
}

// stall returns by how much the request stalls each one in flight at candidate i. What is cached is not computed,
// whatever its credit.
func (p *Plan) stall(matched []int, i int) float64 {
	if matched == nil || p.Stall <= 0 {
		return max(0, p.Stall)
	}
	return p.Stall * (1 - p.Prefix.Fraction(matched[i]))
}

// over returns what the candidate costs, with load l and one request more, for those that have to wait there.
func (c *Candidate) over(l Load) float64 {
	if requests := l.Requests + 1; c.Late(requests) {
		return c.OverSlope * (float64(requests) - c.Capacity) / c.Weight
	}
	return 0
}

// Late reports whether so many requests, the plan's one included, are more than the candidate's Capacity.
func (c *Candidate) Late(requests int64) bool {
	return c.OverSlope > 0 && float64(requests) > c.Capacity
}

// discount returns the reduction of candidate i's cost for its match. The conversion rounds the product before it is
// subtracted: with a fused multiply-add, ties would be settled differently from a store in Redis.
func (p *Plan) discount(credit float64, matched []int, i int) float64 {
	if matched == nil {
		return 0
	}
	return float64(credit * p.Prefix.creditFraction(matched[i]))
}
