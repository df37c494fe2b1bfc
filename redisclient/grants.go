package redisclient

import (
	"bytes"
	"strconv"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// passOn handles what a step of this owner has granted in the scope: to requests of its own, and of others.
func (room *waitingRoom) passOn(now time.Duration, grants []byte) {
	led := room.ledger
	if len(grants) == 0 {
		return
	}
	news := map[string][]byte{} // by owner
	for in := wire.NewReader(grants); in.Len() >= ownerSize+newsSize; {
		owner := string(bytes.TrimLeft(in.Take(ownerSize), " "))
		news[owner] = append(news[owner], in.Take(newsSize)...)
	}
	for _, name := range order.Keys(news) {
		if owner, err := strconv.ParseUint(name, 16, 64); err == nil && name != led.owner.name {
			led.onGrant(owner, append(wire.Writer(nil).Text(led.scope), news[name]...))
		}
	}
	room.handleEntries(now, news[led.owner.name])
}

// handleNews handles the answer to a poll: what has become of some of the owner's requests, after a stamp.
func (room *waitingRoom) handleNews(now time.Duration, news []byte) {
	in := wire.NewReader(news)
	room.news = append(room.news[:0], in.Take(min(8, in.Len()))...)
	room.fetched = in.Len() / newsSize
	room.handleEntries(now, in.Rest())
}

// handleEntries handles what has become of some of the owner's requests: see lua/queue.lua. What was handled before has
// no effect.
func (room *waitingRoom) handleEntries(now time.Duration, entries []byte) {
	for in := wire.NewReader(entries); in.Len() >= newsSize; {
		id, row := lb.LeaseID(in.Uint64()), in.Uint16()
		reply := reservationReply{}
		reply.grant.Load = lb.Load{Requests: int64(in.Uint32()), Tokens: int64(in.Uint(6))}
		reply.grant.Cached, reply.tokens = int(in.Byte()), int64(in.Uint32())
		l := room.ledger.leases[id]
		if l == nil || l.state != waiting {
			continue
		}
		order := orderOf(l.waiter.plan.Prefix.Blocks)
		reply.grant.Cached = order.leading(reply.grant.Cached)
		reply.grant.Index = l.waiter.indexOf(row)
		reply.code = int64(reply.grant.Index)
		switch {
		case row == evictedRow:
			room.endWait(now, l.waiter, lb.ErrEvicted)
		case reply.code < 0:
			room.sendAgain(now, l.waiter)
		default:
			room.claim(now, l.waiter, reply)
		}
	}
}
