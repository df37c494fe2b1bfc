package forward

import (
	"time"

	"github.com/warmgate/warmgate/plugin/regions"
)

// The servers of a region whose gateways are gone are served from here as this region's own, if it has adopted them: a
// request that would be forwarded there has one of them chosen instead. That is a choice of its own, as inside a
// cluster: the inner placement has the plan, the lease and the place in a queue, in the cluster of those servers.

// findServers sends the request to the adopted servers of a peer if one of them is open.
func (f *Forwarding) findServers(now time.Duration, h *regions.Home, peer int) (found bool) {
	pl := f.pl
	to := &pl.Config.Regions.Peers[peer]
	f.To = to.Name
	pl.Gateway.SetCluster(pl.Config.Regions.Header, to.Adopt)
	if found = h.FindServers(now, peer, pl.Context); !found {
		f.Recall()
	}
	return found
}

// Servers returns the cluster of the adopted servers that the request goes to.
func (f *Forwarding) Servers() string { return f.pl.Config.Regions.Peers[f.peer].Adopt }

// JoinServers has a placement at adopted servers know that another one of its request has left for them.
func (f *Forwarding) JoinServers(from *Forwarding) {
	f.To, f.peer, f.why, f.away = from.To, from.peer, from.why, ToServers
	f.pl.Wait.Forwarded, f.pl.Wait.Stays = true, true
}

// maxReturns is how often a request may come back from adopted servers, until it stays at home.
const maxReturns = 3

// ComeHome has the request come back from adopted servers, which have nothing for it any more.
func (f *Forwarding) ComeHome() {
	pl := f.pl
	f.regions.Of(pl.Config).NoneOpen(f.peer)
	f.Recall()
	*f = Forwarding{pl: pl, regions: f.regions, returns: f.returns + 1}
	pl.Wait.Stays = f.returns >= maxReturns
}
