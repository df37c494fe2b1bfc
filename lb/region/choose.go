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
	ByMatch               // it has been forwarded the longest part of the prompt
	ByTime                // it is likely to serve first
)

// String returns the name of the reason, for headers and logs.
func (r Reason) String() string {
	return [...]string{NoPeer: "none", ByMatch: "prefix", ByTime: "time"}[r]
}

// step is within which expected times are equal: differences of the measured round trip must not decide.
const step = 10 * time.Millisecond

// Forward chooses the peer that a request is forwarded to, now, and counts it there, in one step: of those that are
// available and allowed, the one with the longest match in the [Snapshot], in blocks by peer; among equals, the one
// with the least expected time; among equals of these, the one that the hash of the session names. allowed are names of
// regions; nil allows all. It is [None] if there is no such peer, or if the request cannot be counted.
//
// A request that may wait for where its prompt is says how many blocks the servers at home have, home: as long as they,
// or those of another allowed peer that answers, have more than the peer that would be chosen, it is [None] as well.
// For one that goes anywhere, home is negative.
func (b *Board) Forward(now time.Duration, matched []int, home int, session uint64, allowed []string) (
	peer int, why Reason,
) {
	err := b.change(func() bool {
		if peer, why = b.choose(now, matched, home, session, allowed); peer != None {
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

// eachAllowed returns the peers that are allowed.
func (b *Board) eachAllowed(allowed []string) (peers []int) {
	for i := range b.peers {
		if allowed == nil || slices.Contains(allowed, b.config.Peers[i].Name) {
			peers = append(peers, i)
		}
	}
	return peers
}

func (b *Board) choose(now time.Duration, matched []int, home int, session uint64, allowed []string) (
	peer int, why Reason,
) {
	peer = None
	var best candidate
	longest := home
	for _, i := range b.eachAllowed(allowed) {
		p, s := &b.config.Peers[i], &b.peers[i]
		c := candidate{steps: s.expected(p) / step, rank: rank(session, p.Name)}
		if i < len(matched) {
			c.match = matched[i]
		}
		if s.hears() && !s.outcomes.pauses(now) {
			longest = max(longest, c.match)
		}
		if s.available(&b.config, i, now) && (peer == None || c.before(&best)) {
			peer, best = i, c
		}
	}
	switch {
	case peer == None || home >= 0 && best.match < longest:
		return None, NoPeer
	case best.match > 0:
		return peer, ByMatch
	}
	return peer, ByTime
}

// candidate is what a peer is compared by.
type candidate struct {
	match int
	steps time.Duration // of the expected time
	rank  uint64
}

// before reports whether the candidate is to be taken rather than the other one.
func (c *candidate) before(d *candidate) bool {
	return cmp.Or(cmp.Compare(c.match, d.match), cmp.Compare(d.steps, c.steps), cmp.Compare(c.rank, d.rank)) > 0
}

// rank returns the place of a peer in the order of a session: highest random weight, so that a session keeps its peer
// when others come and go.
func rank(session uint64, name string) uint64 {
	x := session ^ xxhash.Sum64String(name)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
