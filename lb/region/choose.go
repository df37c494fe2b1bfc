package region

import (
	"cmp"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"
)

// None is the peer of a request that cannot be forwarded.
const None = -1

// Reason is why a peer was chosen, or none.
type Reason uint8

// The reasons.
const (
	NoPeer  Reason = iota // none that is available is allowed
	Stays                 // the request rather waits for where its prompt is: see [Stay]
	ByMatch               // it has been forwarded the longest part of the prompt
	ByTime                // it is likely to serve first
)

// String returns the name of the reason, for headers and logs.
func (r Reason) String() string {
	return [...]string{NoPeer: "none", Stays: "stays", ByMatch: "prefix", ByTime: "time"}[r]
}

// step is within which expected times are equal: differences of the measured round trip must not decide.
const step = 10 * time.Millisecond

// Request is what is known of a request that may be forwarded.
type Request struct {
	Matched []int    // blocks of its prompt that each peer was sent before, by the [Snapshot]; nil: none of them any
	Session uint64   // hash of what it belongs to: equal peers are settled by that
	Sticky  bool     // a session's requests belong together, wherever that is
	Allowed []string // names of the regions where it may go; nil: all
	Stay
}

// Forward chooses the peer that a request is forwarded to, now, and counts it there, in one step: of those that are
// available and allowed, the one that is likely to begin the answer first, by its round trip, its wait, and what has to
// be computed of the prompt there; among equals, in steps of 10 ms, the one with the longest match; among equals of
// these, the one that the hash of the session names, which comes first for one that is sticky. It is [None] if there is
// no such peer, if the request should rather stay, or if it cannot be counted.
func (b *Board) Forward(now time.Duration, r *Request) (peer int, why Reason) {
	err := b.change(func() bool {
		if peer, why = b.choose(now, r); peer != None {
			b.peers[peer].send(&b.config.Peers[peer], now)
		}
		return peer != None
	})
	if err != nil {
		return None, NoPeer
	}
	return peer, why
}

// HasRoom reports whether an allowed peer is available.
func (b *Board) HasRoom(now time.Duration, allowed []string) bool {
	return b.read() == nil && slices.ContainsFunc(b.eachAllowed(allowed), func(i int) bool {
		return b.peers[i].available(&b.config, i, now)
	})
}

// Answers reports whether an allowed peer answers probes, or its servers are served from here, so that it may have room
// at another time.
func (b *Board) Answers(allowed []string) bool {
	return b.read() == nil && slices.ContainsFunc(b.eachAllowed(allowed), func(i int) bool {
		return b.peers[i].hears() || b.peers[i].isAdopted(&b.config.Peers[i])
	})
}

// eachAllowed returns the peers that are allowed.
func (b *Board) eachAllowed(allowed []string) (peers []int) {
	for i := range b.peers {
		if allowed == nil || slices.Contains(allowed, b.config.Peers[i].Name) {
			peers = append(peers, i)
		}
	}
	return peers
}

func (b *Board) choose(now time.Duration, r *Request) (peer int, why Reason) {
	peer = None
	var best candidate
	others := make([]candidate, 0, MaxPeers+1)
	if r.Home > 0 {
		others = append(others, candidate{match: r.Home, least: -r.saved(r.Home)})
	}
	for _, i := range b.eachAllowed(r.Allowed) {
		p, s := &b.config.Peers[i], &b.peers[i]
		c := candidate{least: s.expected(p), rank: rank(r.Session, p.Name)}
		if i < len(r.Matched) {
			c.match = r.Matched[i]
			c.least -= r.saved(c.match)
		}
		if s.hears() && !s.outcomes.pauses(now) {
			others = append(others, c)
		}
		if s.available(&b.config, i, now) && (peer == None || c.before(&best, r)) {
			peer, best = i, c
		}
	}
	stays := func(c candidate) bool { return r.staysFor(&c, &best) }
	switch {
	case peer == None:
		return None, NoPeer
	case r.Home >= 0 && slices.ContainsFunc(others, stays):
		return None, Stays
	case best.match > 0:
		return peer, ByMatch
	}
	return peer, ByTime
}

// candidate is what a peer, or home, is compared by.
type candidate struct {
	match int
	least time.Duration // until the answer begins, but for what waits at home, less what its match saves
	rank  uint64
}

// before reports whether the candidate is to be taken rather than the other one. While it is not known what a match
// saves, a longer one comes first.
func (c *candidate) before(d *candidate, r *Request) bool {
	match, least := cmp.Compare(c.match, d.match), cmp.Compare(d.least/step, c.least/step)
	by := cmp.Compare(c.rank, d.rank)
	switch {
	case r.Sticky:
		return by > 0
	case r.Saves == nil:
		return cmp.Or(match, least, by) > 0
	}
	return cmp.Or(least, match, by) > 0
}

// rank returns the place of a peer in the order of a session: highest random weight, so that a session keeps its peer
// when others come and go.
func rank(session uint64, name string) uint64 {
	x := session ^ xxhash.Sum64String(name)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
