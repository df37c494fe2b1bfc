package policy

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

const (
	// retryShare: at most every 10th request goes to a cluster that got none for neglectedFor, since that may have
	// become better. All such clusters share that 10th.
	retryShare = 10
	// leastSlope orders equal latencies by requests in flight. It is a part of the latency.
	leastSlope = 1e-3
)

// weigh returns the candidates that are compared, those of within, with what they cost; for AdaptiveScore of these a
// sample of those that do not cool down. Behind them come the others of all.
func (p *clusterMetrics) weigh(now time.Duration, r *lb.Request, within []lb.Candidate, all lb.List) lb.List {
	warm := within
	if p.cfg.Mode == AdaptiveScore {
		warm = p.latencies.withoutCooling(now, within)
	}
	again := p.neglected(now, r, warm)
	if p.cfg.Mode == LeastBusy && again < 0 && len(within) == len(all.Candidates) {
		return all
	}
	out := slices.Clone(warm)
	if p.cfg.Mode == AdaptiveScore && again < 0 {
		out = sample(out, p.cfg.Choices, r.Random)
	}
	if p.cfg.Mode != LeastBusy {
		p.setCosts(now, out)
	}
	if again >= 0 { // whatever it costs, unless it is full
		lowest := slices.MinFunc(out, func(a, b lb.Candidate) int { return cmp.Compare(a.Base, b.Base) })
		out[again].Base = lowest.Base - hugeCost
	}
	return lb.NewList(withSpares(out, warm, within, all.Candidates))
}

// hugeCost is above the cost of any candidate, with the highest weights of a score and the most requests in flight.
const hugeCost = 1e30

// neglected returns the candidate that is to be asked again, -1 for none.
func (p *clusterMetrics) neglected(now time.Duration, r *lb.Request, cs []lb.Candidate) int {
	ls := p.latencies
	if ls.sinceRetry++; ls.sinceRetry < retryShare {
		return -1
	}
	idle := p.shares.idle(now, neglectedFor, cs)
	var list []int
	for i := range cs {
		if idle[i] {
			list = append(list, i)
		}
	}
	all := len(list) == len(cs) // so few requests come
	if len(list) == 0 || all && (p.cfg.Mode == LeastBusy || len(cs) == 1) {
		return -1
	}
	ls.sinceRetry = 0
	return list[int(lb.Mix(r.Random)%uint64(len(list)))]
}

// setCosts sets the costs of the candidates by their latencies. A cluster without an answer yet counts as if it was as
// fast as the fastest, so that it is chosen by its requests in flight.
func (p *clusterMetrics) setCosts(now time.Duration, cs []lb.Candidate) {
	fastest := math.Inf(1)
	costs := make([]float64, len(cs))
	for i := range cs {
		costs[i] = p.cost(now, p.latencies.of(cs[i].Addr))
		if costs[i] > 0 {
			fastest = min(fastest, costs[i])
		}
	}
	if math.IsInf(fastest, 1) {
		fastest = 1
	}
	for i := range cs {
		c, cost := &cs[i], costs[i]
		if cost == 0 {
			cost = fastest
		}
		cost = lb.RoundDigits(cost, 6)
		if p.cfg.Mode != AdaptiveScore {
			c.Base = c.Base*leastSlope*cost + cost/c.Weight
			c.Slope = leastSlope * cost
			continue
		}
		l := p.latencies.of(c.Addr)
		c.Base, c.Slope = c.Base*cost, cost
		if now < l.coolsUntil {
			c.Base += cost * float64(l.streak+1) / c.Weight
		}
	}
}

// cost returns what a cluster costs by what is known of it: a latency in milliseconds, or for AdaptiveScore the score
// per request in flight; 0 if nothing is known.
func (p *clusterMetrics) cost(now time.Duration, l *latency) float64 {
	first, whole := l.known.first, l.known.whole
	switch {
	case first == 0 && whole == 0:
		return 0
	case p.cfg.Mode == LeastFirstTokenLatency:
		return first
	case p.cfg.Mode == LeastTotalLatency:
		return whole
	}
	if first == 0 {
		first = whole
	}
	if whole == 0 {
		whole = first
	}
	score := p.cfg.TTFTWeight*math.Sqrt(first+1) + p.cfg.TotalWeight*math.Sqrt(whole+1)
	return score * (1 + p.cfg.ErrorPenalty*l.failureRate(now))
}

// sample returns n of the candidates, drawn at random, in an order that does not depend on the draws.
func sample(cs []lb.Candidate, n int, random uint64) []lb.Candidate {
	if n >= len(cs) {
		return cs
	}
	for i := range n {
		random = shuffled(random)
		at := i + int(random%uint64(len(cs)-i))
		cs[i], cs[at] = cs[at], cs[i]
	}
	order.By(cs[:n], func(a, b *lb.Candidate) bool { return a.Addr < b.Addr })
	return cs[:n]
}

// shuffled returns random bits that do not follow from the others by what else uses them.
func shuffled(random uint64) uint64 { return bits.RotateLeft64(lb.Mix(random+0x9e3779b97f4a7c15), 17) }
