package regions

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/region"
	"github.com/warmgate/warmgate/plugin/config"
)

// This file is what requests need that come from other regions, or go there. Peers are known by their places in the
// configuration.

// Hop returns which region has forwarded a request to one of the homes, by the texts that it has come with. subject is
// what both gateways see of it.
func (r *Regions) Hop(homes []*config.Config, texts region.Texts, subject string) (from region.Hop) {
	for _, c := range homes {
		h := r.Of(c).keys.ReadHop(texts, c.Regions.Name, r.GW.Wall(), subject)
		if h.Signed() && (h.Odd == nil || !from.Signed()) {
			from = h
		}
	}
	return from
}

// SignHop returns the headers with which a request is forwarded to a peer.
func (h *Home) SignHop(peer int, subject string) [][2]string {
	own := &h.Config.Regions
	return inHeaders(HopHeaders, h.keys.SignHop(own.Name, own.Peers[peer].Name, h.of.GW.Wall(), subject))
}

// Forward chooses a peer that has room for a request, of those allowed, and counts it there. adopted: the request goes
// to the servers of the peer, else to its gateways. See [region.Board.Forward].
func (h *Home) Forward(now time.Duration, r region.Request) (peer int, why region.Reason, adopted bool) {
	peer, why = h.Board.Forward(now, &r)
	return peer, why, peer != region.None && h.Board.Adopted(peer)
}

// Answers reports whether a peer where the requests of the home may go answers, with room or without.
func (h *Home) Answers() bool { return h.Board.Answers(h.Config.Regions.Allowed) }

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
