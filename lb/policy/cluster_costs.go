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
	// leaning is what a request costs that finds room, as a part of what one costs that does not.
	leaning = 0.25
)

// weigh returns the candidates that are compared, those of within, with what they cost; for AdaptiveScore of these a
// sample of those that do not cool down, or one that does and is to be tried. Behind them come the others of all.
func (p *clusterMetrics) weigh(now time.Duration, r *lb.Request, within []lb.Candidate, all lb.List) lb.List {
	warm := within
	adaptive := p.cfg.Mode == AdaptiveScore
	if adaptive {
		warm = p.latencies.withoutCooling(now, within)
	}
	out := slices.Clone(warm)
	again := p.neglected(now, r, warm)
	if failed := p.tried(now, r, within, warm, again); failed >= 0 {
		again, out = len(out), append(out, within[failed])
	}
	switch {
	case p.cfg.Mode == LeastBusy && again < 0 && len(within) == len(all.Candidates):
		return all
	case adaptive && again < 0:
		out = p.sample(out, r.Random)
	}
	switch p.cfg.Mode {
	case AdaptiveScore:
		p.setScores(now, out)
	case LeastTotalLatency, LeastFirstTokenLatency:
		p.setLatencies(out)
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
	if !r.Trial {
		ls.sinceRetry++
	}
	if r.Trial || ls.sinceRetry < retryShare {
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

// tried returns which of the candidates that cool down is to be tried, -1 for none: of all requests as few are for that
// as for neglected ones. That ends a cooldown early, if the cluster works again.
func (p *clusterMetrics) tried(now time.Duration, r *lb.Request, within, warm []lb.Candidate, again int) int {
	ls := p.latencies
	if again >= 0 || r.Trial || ls.sinceRetry < retryShare || len(warm) == len(within) {
		return -1
	}
	for i := range within {
		if ls.of(within[i].Addr).startCheck(now) {
			ls.sinceRetry = 0
			return i
		}
	}
	return -1
}

// known returns what the candidates cost by what is known of them. A cluster without an answer yet counts as if it was
// as fast as the fastest, so that it is chosen by its requests in flight.
func (p *clusterMetrics) known(cs []lb.Candidate, cost func(*latency) float64) []float64 {
	fastest := math.Inf(1)
	costs := make([]float64, len(cs))
	for i := range cs {
		costs[i] = cost(p.latencies.of(cs[i].Addr))
		if costs[i] > 0 {
			fastest = min(fastest, costs[i])
		}
	}
	if math.IsInf(fastest, 1) {
		fastest = 1
	}
	for i := range costs {
		if costs[i] == 0 {
			costs[i] = fastest
		}
		costs[i] = lb.RoundDigits(costs[i], 6)
	}
	return costs
}

// setLatencies sets the costs of the candidates by their latencies.
func (p *clusterMetrics) setLatencies(cs []lb.Candidate) {
	for i, cost := range p.known(cs, p.latency) {
		c := &cs[i]
		c.Base = c.Base*leastSlope*cost + cost/c.Weight
		c.Slope = leastSlope * cost
	}
}

// setScores sets the costs of the candidates by their scores: score × max(1, requests / room), and a little for each
// request below that, which keeps equal clusters level. The room is what the cluster serves at once.
func (p *clusterMetrics) setScores(now time.Duration, cs []lb.Candidate) {
	scores := p.known(cs, func(l *latency) float64 { return p.score(now, l) })
	healthy := p.healthy(cs)
	for i := range cs {
		c, l := &cs[i], p.latencies.of(cs[i].Addr)
		score := scores[i] / healthy[i]
		size := lb.RoundDigits(l.room.requests(), 3)
		c.Capacity = size * c.Weight
		c.OverSlope = score / size
		c.Slope = leaning * c.OverSlope
		c.Base = c.Base*c.OverSlope + score
		if now < l.coolsUntil { // all do
			c.Base += c.OverSlope * float64(l.streak+1) / c.Weight
		}
	}
}

// healthy returns which part of its weight each candidate has that is not less for its failures: a weight that is
// configured says how large a cluster is, one that its failures lower how often it may be chosen.
func (p *clusterMetrics) healthy(cs []lb.Candidate) []float64 {
	parts, highest := make([]float64, len(cs)), 0.0
	for i := range cs {
		parts[i] = cs[i].Weight / p.cluster.Weight(&lb.Endpoint{Addr: cs[i].Addr})
		highest = max(highest, parts[i])
	}
	for i := range parts {
		parts[i] /= highest
	}
	return parts
}

// latency returns the mean latency of the mode in milliseconds; 0 if nothing is known.
func (p *clusterMetrics) latency(l *latency) float64 {
	if p.cfg.Mode == LeastFirstTokenLatency {
		return l.known.first
	}
	return l.known.whole
}

// score returns the score of a cluster, without the requests in flight there; 0 if nothing is known.
func (p *clusterMetrics) score(now time.Duration, l *latency) float64 {
	first, whole := l.known.first, l.known.whole
	if first == 0 && whole == 0 {
		return 0
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

// sample returns as many of the candidates as are configured, drawn at random, in an order that does not depend on the
// draws. The faster a cluster serves, the more often it is drawn: by even draws those that are slow together would have
// to serve what is drawn for no other, however little that is.
func (p *clusterMetrics) sample(cs []lb.Candidate, random uint64) []lb.Candidate {
	n := p.cfg.Choices
	if n >= len(cs) {
		return cs
	}
	speeds, left := p.speeds(cs), 0.0
	for _, speed := range speeds {
		left += speed
	}
	for i := range n {
		random = shuffled(random)
		at, draw := i, float64(random>>11)/(1<<53)*left
		for draw -= speeds[at]; draw > 0 && at < len(cs)-1; draw -= speeds[at] {
			at++
		}
		left -= speeds[at]
		cs[i], cs[at] = cs[at], cs[i]
		speeds[i], speeds[at] = speeds[at], speeds[i]
	}
	order.By(cs[:n], func(a, b *lb.Candidate) bool { return a.Addr < b.Addr })
	return cs[:n]
}

// speeds returns how many requests the clusters can serve in a millisecond; one without an answer yet as many as the
// fastest.
func (p *clusterMetrics) speeds(cs []lb.Candidate) []float64 {
	speeds, fastest := make([]float64, len(cs)), 0.0
	for i := range cs {
		if l := p.latencies.of(cs[i].Addr); l.known.whole > 0 {
			speeds[i] = l.room.requests() / l.known.whole
			fastest = max(fastest, speeds[i])
		}
	}
	if fastest == 0 {
		fastest = 1
	}
	for i := range speeds {
		if speeds[i] == 0 {
			speeds[i] = fastest
		}
	}
	return speeds
}

// shuffled returns random bits that do not follow from the others by what else uses them.
func shuffled(random uint64) uint64 { return bits.RotateLeft64(lb.Mix(random+0x9e3779b97f4a7c15), 17) }
