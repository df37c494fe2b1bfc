package policy

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/recent"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/health"
)

// homes ranks candidates by the keys of sessions, by rendezvous hashing (Thaler and Ravishankar, 1996): every pair of
// a key and an endpoint has a score, and the candidates are ordered by it. So every gateway comes to the same order
// without knowing of any other, and an endpoint that comes or leaves moves no keys but its own. The shares of keys
// follow the endpoints' weights (Schindelhauer and Schomaker: "Weighted Distributed Hash Tables", 2005).
//
// An endpoint that fails requests is the last choice of its sessions, of as large a part of them as its weight is
// lowered by, and of the same ones as long as it fails as much: otherwise one that fails at once would always be idle,
// and keep them all.
type homes struct {
	tables *recent.Cache[homeKey, []homePoint]
}

// homeTables is how many tables are kept: requests of one tier mostly have the same list of candidates.
const homeTables = 8

// homeKey is a tier of a list of candidates.
type homeKey struct {
	list uint64 // its digest
	tier uint8
}

// homePoint is a candidate as keys see it.
type homePoint struct {
	hash   uint64
	weight float64 // 0: all candidates have the same
	part   float64 // of its weight that it has while it fails, 1 for all of it
	index  uint16
}

// order returns the candidates of a tier in the order of the key, at most [lb.MaxOrder].
func (h *homes) order(
	now time.Duration, key uint64, l lb.List, tier uint8, v *lb.View, config *health.ClusterConfig,
) []uint16 {
	points := h.points(now, l, tier, v, config)
	ranks := make([]uint64, len(points))
	for i := range points {
		p := &points[i]
		// The lower bits are the index, to have it at hand after sorting. Scores that are equal without them are as
		// good as never.
		ranks[i] = p.score(key)&^math.MaxUint16 | uint64(p.index)
	}
	slices.Sort(ranks)
	ranks = ranks[:min(len(ranks), lb.MaxOrder)]
	order := make([]uint16, len(ranks))
	for i, r := range ranks {
		order[i] = uint16(r)
	}
	return order
}

// score returns the score of a key at an endpoint: the lower, the more it belongs there. The highest bit is set for
// keys that an endpoint should not have while it fails.
func (p *homePoint) score(key uint64) uint64 {
	x := lb.Mix(key ^ p.hash)
	score := ^x >> 1 // in the order of equal weights below
	if p.weight > 0 {
		score = math.Float64bits(-math.Log(uniform(x)) / p.weight) // positive floats have the order of their bits
	}
	if p.part < 1 && uniform(lb.Mix(x)) >= p.part {
		score |= 1 << 63
	}
	return score
}

// uniform returns a number between 0 and 1, neither of them.
func uniform(x uint64) float64 { return (float64(x>>11) + 0.5) / (1 << 53) }

// points returns the table for a tier of the candidates.
func (h *homes) points(now time.Duration, l lb.List, tier uint8, v *lb.View, config *health.ClusterConfig) []homePoint {
	if h.tables == nil {
		h.tables = recent.New[homeKey, []homePoint](homeTables, lb.UnusedListTTL)
	}
	key := homeKey{l.Digest(), tier}
	points, known := h.tables.Get(now, key)
	if !known {
		points = newHomePoints(l.Candidates, tier, v, config)
		h.tables.Put(now, key, points)
	}
	return points
}

// newHomePoints makes a table. Weights are as configured: those of candidates change while an endpoint fails, and all
// sessions would move.
func newHomePoints(cs []lb.Candidate, tier uint8, v *lb.View, config *health.ClusterConfig) (points []homePoint) {
	weights := make(map[string]float64, len(v.Endpoints))
	for i := range v.Endpoints {
		weights[v.Endpoints[i].Addr] = config.Weight(&v.Endpoints[i])
	}
	equal, most := true, 0.0
	for i := range min(len(cs), math.MaxUint16) {
		if c := &cs[i]; c.Tier == tier {
			p := homePoint{hash: lb.Mix(lb.EndpointHash(c.Addr)), weight: weights[c.Addr], index: uint16(i)}
			p.part = c.Weight / p.weight
			most = max(most, p.part)
			equal = equal && (len(points) == 0 || p.weight == points[0].weight)
			points = append(points, p)
		}
	}
	const rounding = 1e-6 // weights of candidates are rounded
	for i := range points {
		p := &points[i]
		if p.part /= most; p.part > 1-rounding {
			p.part = 1
		}
		if equal {
			p.weight = 0
		}
	}
	return points
}
