package lb

import (
	"math"
	"slices"
)

// homes ranks candidates by the keys of sessions, by rendezvous hashing (Thaler and Ravishankar, 1996): every pair of
// a key and an endpoint has a score, and the candidates are ordered by it. So every gateway comes to the same order
// without knowing of any other, and an endpoint that comes or leaves moves no keys but its own. The shares of keys
// follow the endpoints' weights (Schindelhauer and Schomaker: "Weighted Distributed Hash Tables", 2005).
type homes struct {
	tables map[homeKey][]homePoint
}

// homeKey is what a table is made for. Candidates are known by their address, as stores know them; the table refers to
// them, so that the address is not used again.
type homeKey struct {
	first *Candidate
	n     int
	tier  uint8
}

// homePoint is a candidate as keys see it.
type homePoint struct {
	hash   uint64
	weight float64 // 0: all candidates have the same
	index  uint16
}

// maxHomeTables bounds the tables. Above it all are deleted; those in use are made again.
const maxHomeTables = 32

// order returns the candidates of a tier in the order of the key, at most [MaxOrder].
func (h *homes) order(key uint64, cs []Candidate, tier uint8, v *View, config *ClusterConfig) []uint16 {
	points := h.points(cs, tier, v, config)
	ranks := make([]uint64, len(points))
	for i := range points {
		p := &points[i]
		// The lower bits are the index: it is at hand after sorting, and equal scores have one order everywhere.
		ranks[i] = p.score(key)&^math.MaxUint16 | uint64(p.index)
	}
	slices.Sort(ranks)
	ranks = ranks[:min(len(ranks), MaxOrder)]
	order := make([]uint16, len(ranks))
	for i, r := range ranks {
		order[i] = uint16(r)
	}
	return order
}

// score returns the score of a key at an endpoint: the lower, the more it belongs there.
func (p *homePoint) score(key uint64) uint64 {
	x := mix(key ^ p.hash)
	if p.weight == 0 {
		return ^x // in the order of equal weights below
	}
	u := (float64(x>>11) + 0.5) / (1 << 53)
	return math.Float64bits(-math.Log(u) / p.weight) // positive floats have the order of their bits
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014): each bit of the result depends on all of x.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// points returns the table for a tier of the candidates. Weights are as configured: those of candidates change while an
// endpoint fails, and its sessions would move.
func (h *homes) points(cs []Candidate, tier uint8, v *View, config *ClusterConfig) []homePoint {
	key := homeKey{&cs[0], len(cs), tier}
	if t, ok := h.tables[key]; ok {
		return t
	}
	weights := make(map[string]float64, len(v.Endpoints))
	for i := range v.Endpoints {
		weights[v.Endpoints[i].Addr] = config.Weight(&v.Endpoints[i])
	}
	var points []homePoint
	equal := true
	for i := range min(len(cs), math.MaxUint16) {
		if c := &cs[i]; c.Tier == tier {
			p := homePoint{hash: mix(EndpointHash(c.Addr)), weight: weights[c.Addr], index: uint16(i)}
			equal = equal && (len(points) == 0 || p.weight == points[0].weight)
			points = append(points, p)
		}
	}
	for i := range points {
		if equal {
			points[i].weight = 0
		}
	}
	if h.tables == nil || len(h.tables) >= maxHomeTables {
		h.tables = map[homeKey][]homePoint{}
	}
	h.tables[key] = points
	return points
}
