package core

import (
	"time"

	"github.com/warmgate/warmgate/plugin/regions"
)

// The servers of a region whose gateways are gone are served from here as this region's own, if it has adopted them: a
// request that would be forwarded there has one of them chosen instead. That is a choice of its own, as inside a
// cluster: the inner placement has the plan, the lease and the place in a queue, in the cluster of those servers.

// findServers sends the request to the adopted servers of a peer if one of them is open.
func (f *forwarding) findServers(now time.Duration, h *regions.Home, peer int) (found bool) {
	pl := f.pl
	to := &pl.Config.Regions.Peers[peer]
	f.to = to.Name
	pl.Gateway.SetCluster(pl.Config.Regions.Header, to.Adopt)
	if found = h.FindServers(now, peer, pl.Context); !found {
		f.recall()
	}
	return found
}

// maxReturns is how often a request may come back from adopted servers, until it stays at home.
const maxReturns = 3

// comeHome has the request come back from adopted servers, which have nothing for it any more.
func (f *forwarding) comeHome() {
	pl := f.pl
	f.regions.Of(pl.Config).NoneOpen(f.peer)
	f.recall()
	*f = forwarding{pl: pl, regions: f.regions, from: f.from, returns: f.returns + 1}
}
