package region

import (
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
	reasons               // their number
)

// String returns the name of the reason, for headers and logs.
func (r Reason) String() string {
	return [reasons]string{NoPeer: "none", ByMatch: "prefix", ByTime: "time"}[min(r, reasons-1)]
}

// step is within which expected times are equal: differences of the measured round trip must not decide.
const step = 10 * time.Millisecond

// Forward chooses the peer that a request is forwarded to, now, and counts it there, in one step: of those that are
// available and allowed, the one with the longest match in the [Snapshot], in blocks by peer; among equals, the one
// with the least expected time; among equals of these, the one that the hash of the session names. allowed are names of
// regions; nil allows all. It is [None] if there is no such peer, or if the request cannot be counted.
func (b *Board) Forward(now time.Duration, matched []int, session uint64, allowed []string) (peer int, why Reason) {
	err := b.change(func() bool {
		if peer, why = b.choose(now, matched, session, allowed); peer != None {
			b.peers[peer].sent++
		}
		return peer != None
	})
	if err != nil {
		return None, NoPeer
	}
	return peer, why
}

func (b *Board) choose(now time.Duration, matched []int, session uint64, allowed []string) (peer int, why Reason) {
	peer = None
	var best candidate
	for i := range b.peers {
		p, s := &b.config.Peers[i], &b.peers[i]
		if allowed != nil && !slices.Contains(allowed, p.Name) || !s.available(&b.config, i, now) {
			continue
		}
		c := candidate{steps: s.expected(p) / step, rank: rank(session, p.Name)}
		if i < len(matched) {
			c.match = matched[i]
		}
		if peer == None || c.before(&best) {
			peer, best = i, c
		}
	}
	switch {
	case peer == None:
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
	switch {
	case c.match != d.match:
		return c.match > d.match
	case c.steps != d.steps:
		return c.steps < d.steps
	}
	return c.rank > d.rank
}

// rank returns the place of a peer in the order of a session: highest random weight, so that a session keeps its peer
// when others come and go.
func rank(session uint64, name string) uint64 {
	x := session ^ xxhash.Sum64String(name)
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
