package core

import (
	"time"

	"github.com/warmgate/warmgate/lb/region"
)

// The servers of a region whose gateways are gone are served from here as this region's own, if it has adopted them: a
// request that would be forwarded there has one of them chosen instead. That is a choice of its own, as inside a
// cluster: the inner placement has the plan, the lease and the place in a queue, in the cluster of those servers.

// findServers sends the request to the adopted servers of a peer if one of them is open, as far as that is known here
// and now. What is seen by that counts for all.
func (f *forwarding) findServers(now time.Duration, h *home, peer int) (found bool) {
	pl := f.pl
	r, to := pl.plugin.vm.regions, &pl.Config.Regions.Peers[peer]
	f.to = to.Name
	pl.Gateway.SetCluster(pl.Config.Regions.Header, to.Adopt)
	view := r.views.Of(now, to.Adopt, pl.Config)
	state, earlier, known := r.stateOf(now, h, pl.Config, view, pl.Context)
	switch {
	case view != nil && !known: // Redis will tell
		found = true
	case earlier != nil:
		found = r.saw(h, peer, earlier, state)
	default:
		found = state.Open > 0
		state.Open = max(0, state.Open-1) // where this request goes
		r.note(h.board.See(now, peer, state))
	}
	r.askRedis(now, h, peer, 1)
	if !found {
		f.recall()
	}
	return found
}

// maxReturns is how often a request may come back from adopted servers, until it stays at home.
const maxReturns = 3

// comeHome has the request come back from adopted servers, which have nothing for it any more.
func (f *forwarding) comeHome() {
	pl := f.pl
	r := pl.plugin.vm.regions
	h := r.of(pl.Config)
	r.note(h.board.See(r.ReadClock(), f.peer, region.State{}))
	f.recall()
	*f = forwarding{pl: pl, from: f.from, returns: f.returns + 1}
}
