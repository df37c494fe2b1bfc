package views

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/config"
)

// Where a configuration tells ranks of servers apart, each rank is an endpoint of the view in its server's place, with
// its state, weight and zone.

// rankedView is a view of ranks.
type rankedView struct {
	servers *lb.View
	count   int    // of each server; 0: by metrics
	version uint64 // of the numbers of ranks by metrics
	view    *lb.View
}

// maxRanked is how many such views are kept, the latest ones.
const maxRanked = 64

// Known returns the endpoints of a cluster that the current request is perhaps not routed to, nil if none is known.
func (v *Views) Known(now time.Duration, cluster string, c *config.Config) *lb.View {
	return v.ranked(cluster, v.GW.KnownView(now, cluster, c), c)
}

// ranked returns the view of servers, with their ranks in their place if the configuration tells them apart. The view
// stays the same value while the endpoints are the same.
func (v *Views) ranked(cluster string, servers *lb.View, c *config.Config) *lb.View {
	if servers == nil || !c.Ranks.Apart {
		return servers
	}
	count, version := func(string) int { return c.Ranks.Count }, uint64(0)
	if c.Ranks.Count == 0 {
		cl := v.clusters[cluster]
		if cl == nil {
			return servers
		}
		count, version = cl.Engines.Ranks, cl.Engines.RanksVersion()
	}
	for i := range v.ranks {
		if l := &v.ranks[i]; l.servers == servers && l.count == c.Ranks.Count && l.version == version {
			return l.view
		}
	}
	if len(v.ranks) == maxRanked {
		v.ranks = append(v.ranks[:0], v.ranks[1:]...)
	}
	view := expand(servers, count)
	v.ranks = append(v.ranks, rankedView{servers, c.Ranks.Count, version, view})
	return view
}

// expand returns a view with the ranks of each server in its place; of one with a single engine the server.
func expand(servers *lb.View, count func(server string) int) *lb.View {
	out := *servers
	out.Endpoints = nil
	for i := range servers.Endpoints {
		e := &servers.Endpoints[i]
		n := count(e.Addr)
		if _, isRank := lb.RankOf(e.Addr); isRank || n < 2 {
			n = 0
		}
		for rank := range max(1, n) {
			out.Endpoints = append(out.Endpoints, *e)
			if n > 0 {
				out.Endpoints[len(out.Endpoints)-1].Addr = lb.RankAddr(e.Addr, rank)
			}
		}
	}
	return &out
}
