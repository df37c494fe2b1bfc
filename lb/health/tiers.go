package health

import (
	"slices"

	"github.com/warmgate/warmgate/lb"
)

// Requests are divided among failover priorities, and within these among healthy and degraded endpoints, as Envoy
// divides them: see "Priority levels" and "Degraded endpoints" in Envoy's documentation of load balancing.

// overprovisioning is Envoy's default overprovisioning factor, in percent: a priority gets all requests until fewer
// than 100/140 of its servers are usable.
const overprovisioning = 140

// tier is the healthy endpoints of one priority, or its degraded ones.
type tier struct {
	priority uint8
	state    lb.State
	load     int  // percent of the requests
	size     int  // number of candidates
	panics   bool // below the panic threshold: native balancing decides
}

// priorityCounts is how many servers one priority has, those that drain excluded: as many as the gateway counts, which
// knows no ranks.
type priorityCounts struct{ healthy, degraded, total int }

// capacity returns which percentage of the cluster's requests n servers of the priority can take.
func (c *priorityCounts) capacity(n int) int {
	if c.total == 0 {
		return 0
	}
	return min(100, overprovisioning*n/c.total)
}

// totalCapacity returns which percentage of the cluster's requests all priorities together can take.
func totalCapacity(priorities []priorityCounts) int {
	sum := 0
	for i := range priorities {
		c := &priorities[i]
		sum += c.capacity(c.healthy) + c.capacity(c.degraded)
	}
	return min(100, sum)
}

// splitLoad returns the tiers that get requests. Each priority in turn gets what its healthy endpoints can take, then
// each what its degraded ones can. If the total capacity is below 100 %, all shares are scaled up in proportion. The
// first tier gets what rounding leaves.
func splitLoad(priorities []priorityCounts) []tier {
	var tiers []tier
	all, left := totalCapacity(priorities), 100
	for _, state := range [2]lb.State{lb.Healthy, lb.Degraded} {
		for i := range priorities {
			c := &priorities[i]
			n := c.healthy
			if state == lb.Degraded {
				n = c.degraded
			}
			if n == 0 {
				continue
			}
			t := tier{priority: uint8(i), state: state}
			if all > 0 {
				t.load = min(left, c.capacity(n)*100/all)
			}
			left -= t.load
			if t.load > 0 || all == 0 && len(tiers) == 0 { // every priority is below 1 %: use the first
				tiers = append(tiers, t)
			}
		}
	}
	if len(tiers) > 0 {
		tiers[0].load += left
	}
	return tiers
}

// drawTier returns the tier of a request, drawn by bits 32 to 47 of its random bits.
func drawTier(tiers []tier, draw uint64) uint8 {
	percent := int((draw >> 32 & 0xffff) * 100 >> 16)
	for i := range tiers {
		if percent -= tiers[i].load; percent < 0 {
			return uint8(i)
		}
	}
	return 0
}

// usable returns the endpoints that the gateway would use: the healthy and the degraded ones.
func usable(v *lb.View) []*lb.Endpoint {
	out := make([]*lb.Endpoint, 0, len(v.Endpoints))
	for i := range v.Endpoints {
		if e := &v.Endpoints[i]; e.State == lb.Healthy || e.State == lb.Degraded {
			out = append(out, e)
		}
	}
	return out
}

// servers counts the servers of endpoints in their order: the ranks of one follow one another.
type servers struct {
	n        int
	last     string
	priority uint8 // of that one: another priority may have the same address
}

// next counts the server of the next endpoint, and reports whether that is another one than before.
func (s *servers) next(e *lb.Endpoint) bool {
	server := lb.ServerOf(e.Addr)
	if server == s.last && e.Priority == s.priority {
		return false
	}
	s.n, s.last, s.priority = s.n+1, server, e.Priority
	return true
}

// countServers returns of how many servers the endpoints are.
func countServers(list []*lb.Endpoint) int {
	var of servers
	for _, e := range list {
		of.next(e)
	}
	return of.n
}

// countPriorities returns the counts of all priorities, given the usable endpoints, and the size of the cluster, all in
// servers.
func countPriorities(v *lb.View, usable []*lb.Endpoint) (priorities []priorityCounts, total int) {
	var last uint8
	for i := range v.Endpoints {
		last = max(last, v.Endpoints[i].Priority)
	}
	priorities = make([]priorityCounts, int(last)+1)
	var all servers
	for i := range v.Endpoints {
		if e := &v.Endpoints[i]; e.State != lb.Draining && all.next(e) {
			priorities[e.Priority].total++
		}
	}
	var able servers
	for _, e := range usable {
		switch {
		case !able.next(e):
		case e.State == lb.Healthy:
			priorities[e.Priority].healthy++
		default:
			priorities[e.Priority].degraded++
		}
	}
	return priorities, all.n
}

// markPanic marks the tiers below the panic threshold, by the endpoints that the gateway considers usable. There are
// none while all priorities together can take all requests.
func (cfg *Config) markPanic(tiers []tier, priorities []priorityCounts) {
	if totalCapacity(priorities) == 100 {
		return
	}
	for i := range tiers {
		c := &priorities[tiers[i].priority]
		tiers[i].panics = (c.healthy+c.degraded)*100 < cfg.PanicThreshold*c.total
	}
}

// candidates returns the candidates of the endpoints that are in one of the tiers, and sets the tiers' sizes.
func (cfg *ClusterConfig) candidates(v *lb.View, list []*lb.Endpoint, tiers []tier) []lb.Candidate {
	out := make([]lb.Candidate, 0, len(list))
	for _, e := range list {
		at := slices.IndexFunc(tiers, func(t tier) bool { return t.priority == e.Priority && t.state == e.State })
		if at < 0 {
			continue
		}
		c := cfg.newCandidate(e)
		c.Tier = uint8(at)
		if v.Zone.Differs(e.Zone) {
			c.ZonePenalty = cfg.ZonePenalty
		}
		tiers[at].size++
		out = append(out, c)
	}
	return out
}
