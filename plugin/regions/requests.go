package regions

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file is what requests need that come from other regions, or go there. Peers are known by their places in the
// configuration.

// Hop returns which region has forwarded a request to one of the homes, by the text that it has come with. subject is
// what both gateways see of it.
func (r *Regions) Hop(homes []*config.Config, text, subject string) (from region.Hop) {
	for _, c := range homes {
		h := r.Of(c).key.ReadHop(text, c.Regions.Name, r.GW.Wall(), subject)
		if h.Signed() && (h.Odd == nil || !from.Signed()) {
			from = h
		}
	}
	return from
}

// SignHop returns the text with which a request is forwarded to a peer.
func (h *Home) SignHop(peer int, subject string) string {
	own := &h.Config.Regions
	return h.key.SignHop(own.Name, own.Peers[peer].Name, h.of.GW.Wall(), subject)
}

// Forward chooses a peer that has room for a request, and counts it there. tie decides between equal ones. adopted:
// the request goes to the servers of the peer, else to its gateways. See [region.Board.Forward].
func (h *Home) Forward(now time.Duration, matched []int, home int, tie uint64) (
	peer int, why region.Reason, adopted bool,
) {
	peer, why = h.Board.Forward(now, matched, home, tie, h.Config.Regions.Allowed)
	return peer, why, peer != region.None && h.Board.Adopted(peer)
}

// Matched returns how many leading blocks of a prompt were sent to each peer, nil where the prompt does not matter.
func (h *Home) Matched(now time.Duration, prompt *lb.Prefix) []int {
	return h.snapshot.Match(now, prompt, h.Board.Config().Peers)
}

// Record notes that a prompt is sent to a peer.
func (h *Home) Record(now time.Duration, prompt *lb.Prefix, peer int) {
	h.snapshot.Record(now, prompt, &h.Board.Config().Peers[peer])
}

// Ended notes whether the gateways of a peer have served a request that was forwarded at a time. If not, they have not
// got its prompt, but for the blocks that they had.
func (h *Home) Ended(peer int, sentAt time.Duration, served bool, prompt *lb.Prefix, had int) {
	if !served {
		h.snapshot.Forget(prompt, &h.Board.Config().Peers[peer], had)
	}
	h.of.note(h.Board.End(h.of.ReadClock(), peer, sentAt, served))
}

// NoneOpen notes that none of the adopted servers of a peer is open.
func (h *Home) NoneOpen(peer int) { h.of.note(h.Board.See(h.of.ReadClock(), peer, region.State{})) }
