package region

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
)

// Snapshot knows which prompts this gateway has forwarded to which peer: what their regions are likely to have cached.
// It is a prefix index in its own part of shared memory, for all workers.
type Snapshot struct {
	index *memstore.Index
	bytes int
}

// NewSnapshot returns the snapshot in shared memory, which may use so many bytes there.
func NewSnapshot(kv lb.KV, bytes int) *Snapshot {
	return &Snapshot{memstore.NewIndex(kv, "regions"), bytes}
}

// prefix returns a prompt as this index has it: what endpoints of this region retain says nothing about other regions.
func (s *Snapshot) prefix(p *lb.Prefix) lb.Prefix {
	q := *p
	q.ShortTTL, q.IndexMemory = nil, lb.IndexMemory{Local: s.bytes}
	return q
}

// Match returns how many leading blocks of the prompt each of the peers has been forwarded, nil where the prompt does
// not matter.
func (s *Snapshot) Match(now time.Duration, p *lb.Prefix, peers []Peer) []int {
	if !p.NeedsLookup() {
		return nil
	}
	q := s.prefix(p)
	out := make([]int, len(peers))
	for _, m := range s.index.Find(now, &q) {
		for i := range peers {
			if peers[i].Tag() == m.Tag {
				out[i] = m.Blocks
			}
		}
	}
	return out
}

// Record records that the prompt is forwarded to the peer.
func (s *Snapshot) Record(now time.Duration, p *lb.Prefix, peer *Peer) {
	if p.NeedsLookup() {
		q := s.prefix(p)
		s.index.Record(now, &q, peer.Tag())
	}
}

// Forget takes back that the prompt was forwarded to the peer, which did not serve it, but for its first n blocks.
func (s *Snapshot) Forget(p *lb.Prefix, peer *Peer, n int) {
	if p.NeedsLookup() {
		q := s.prefix(p)
		s.index.Forget(&q, peer.Tag(), n)
	}
}
