package regions

import (
	"time"

	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
)

// seeServers has the board know what the servers of an adopted peer have room for. The gateways are asked on.
func (r *Regions) seeServers(now time.Duration, h *Home, peer int) {
	cluster := h.Config.Regions.Peers[peer].Adopt
	if cluster == "" || !h.Board.Adopted(peer) {
		return
	}
	view := r.views.Known(now, cluster, h.Config)
	if view == nil && r.Kind == config.Higress { // only a request that is sent there sees them
		r.note(h.Board.Guess(now, peer))
		return
	}
	state, earlier, known := r.stateOf(now, h, h.Config, view, 0)
	switch {
	case earlier != nil:
		r.saw(h, peer, earlier, state)
	case known:
		r.note(h.Board.See(now, peer, state))
	}
	r.askRedis(now, h, peer, 0)
}

// saw has the board know what adopted servers had room for when Redis was asked, and reports whether what was sent
// since, from all workers, fits.
func (r *Regions) saw(h *Home, peer int, l *redisLoads, state region.State) bool {
	fits, err := h.Board.Saw(l.at, peer, l.sent, state)
	r.note(err)
	return fits
}

// FindServers reports whether one of the adopted servers of a peer is open, as far as that is known here and now by one
// of the region's configurations. What is seen by that counts for all. request is the context of the one that is routed
// there.
func (h *Home) FindServers(now time.Duration, peer int, request uint32) (found bool) {
	r, c := h.of, h.Config
	view := r.views.Of(now, c.Regions.Peers[peer].Adopt, c)
	state, earlier, known := r.stateOf(now, h, c, view, request)
	switch {
	case view != nil && !known: // Redis will tell
		found = true
	case earlier != nil:
		found = r.saw(h, peer, earlier, state)
	default:
		found = state.Open > 0
		state.Open = max(0, state.Open-1) // where this request goes
		r.note(h.Board.See(now, peer, state))
	}
	r.askRedis(now, h, peer, 1)
	return found
}
