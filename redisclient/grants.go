package redisclient

import (
	"bytes"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// ownerSize is the size in bytes of the name of an owner in front of what it was granted: see lua/queue.lua.
const ownerSize = 16

// splitGrants splits the answer of a script that has n items, or is no list if n is 1, from the grants that follow it
// if there are some. They belong to the caller.
func splitGrants(v Value, n int) (answer Value, grants []byte) {
	if v.Kind != Array || len(v.Items) != n+1 {
		return v, nil
	}
	grants = bytes.Clone(v.Items[n].Str)
	if n == 1 {
		return v.Items[0], grants
	}
	v.Items = v.Items[:n]
	return v, grants
}

// passOn handles what a step of this owner has granted in the scope: to requests of its own, and of others.
func (s *Store) passOn(now time.Duration, sc *scopeState, grants []byte) {
	if len(grants) == 0 {
		return
	}
	news := map[string][]byte{} // by owner
	for in := wire.NewReader(grants); in.Len() >= ownerSize+newsSize; {
		owner := string(bytes.TrimLeft(in.Take(ownerSize), " "))
		news[owner] = append(news[owner], in.Take(newsSize)...)
	}
	for _, name := range order.Keys(news) {
		if owner, err := strconv.ParseUint(name, 16, 64); err == nil && name != s.owner {
			s.OnGrant(owner, append(wire.Writer(nil).Text(sc.name), news[name]...))
		}
	}
	s.handleEntries(now, sc, news[s.owner])
}

// Hear takes what OnGrant of another owner's store was called with for this one: what it was granted, before it is told
// by a poll. It may come late, twice, or not at all.
func (s *Store) Hear(now time.Duration, news []byte) {
	in := wire.NewReader(news)
	sc := s.scopes[string(in.Text())]
	if sc == nil || !in.OK() || s.client.breaker.open {
		return
	}
	s.handleEntries(now, sc, in.Rest())
}

// handleNews handles the answer to a poll: what has become of some of the owner's requests, after a stamp.
func (s *Store) handleNews(now time.Duration, sc *scopeState, news []byte) {
	in := wire.NewReader(news)
	sc.news = append(sc.news[:0], in.Take(min(8, in.Len()))...)
	sc.fetched = in.Len() / newsSize
	s.handleEntries(now, sc, in.Rest())
}

// handleEntries handles what has become of some of the owner's requests: see lua/queue.lua. What was handled before has
// no effect.
func (s *Store) handleEntries(now time.Duration, sc *scopeState, entries []byte) {
	for in := wire.NewReader(entries); in.Len() >= newsSize; {
		id, row := lb.LeaseID(in.Uint64()), in.Uint16()
		reply := reservationReply{}
		reply.grant.Load = lb.Load{Requests: int64(in.Uint32()), Tokens: int64(in.Uint(6))}
		reply.grant.Cached, reply.tokens = int(in.Byte()), int64(in.Uint32())
		l := sc.leases[id]
		if l == nil || l.state != waiting {
			continue
		}
		reply.grant.Index = l.waiter.indexOf(row)
		reply.code = int64(reply.grant.Index)
		switch {
		case row == evictedRow:
			s.endWait(now, l.waiter, lb.ErrEvicted)
		case reply.code < 0:
			s.sendAgain(now, l.waiter)
		default:
			s.claim(now, l.waiter, reply)
		}
	}
}
