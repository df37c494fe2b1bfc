package redisclient

import (
	"bytes"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// How requests wait in Redis
//
//  1. A reservation that finds no room, or others that wait, becomes a ticket in the queue (lua/enqueue.lua). The step
//     that frees capacity, of whichever owner, grants it to the ticket whose turn it is (lua/queue_turn.lua,
//     queue_grant.lua): from then on it is a lease of its owner. The answer to that step says to whom it granted what:
//     its sender passes that on to owners that it can reach (Store.OnGrant). Others are told by the answer to their
//     next poll.
//  2. Every lb.PollPeriod one poll is sent, for the scopes in turn in which requests of this owner wait. What an answer
//     names is named again until a later poll has confirmed it. So a lost answer does no harm, and a poll need not wait
//     for the answer to the one before.
//  3. What Redis has lost is reserved again, with the time for which it has waited: if the queue has another stamp than
//     the one in which the requests wait, if a heartbeat does not find them, or if it finds that some leases were
//     returned, because this owner was considered dead. To reserve a request again that was not
//     lost changes nothing.
//  4. While the circuit breaker is open, nobody waits here: all are given back to the caller, who lets them wait in the
//     embedded store (lb.FallbackStore). Their tickets and what they are granted are released by a later heartbeat.

const (
	// maxPolls is how many polls of one scope may have no answer yet.
	maxPolls = 2
	// maxResending is how many requests of one scope are on their way to be reserved again.
	maxResending = 16
	// evictedRow is in place of the row for a request that was evicted.
	evictedRow = 0xffff
)

// waitingRoom is where requests of this owner wait in Redis, in the queue of one scope.
type waitingRoom struct {
	ledger       *ledger
	composer     *composer
	reservations *reservations

	polls    int    // in progress
	asked    uint64 // when the latest one was sent, by owner.seq
	answered uint64 // when the latest one was sent that has an answer
	news     []byte // stamp of the latest answer, nil for none
	fetched  int    // how many requests that named
	queue    []byte // the beginning of the queue in Redis, as last seen
	stamp    string // of the queue in which the requests wait

	toSend    []*waiter // to reserve again, those that came first first
	resending int       // such reservations on their way
	isSending bool      // some are being sent
}

// await notes that a request waits in Redis.
func (room *waitingRoom) await(r *reservation, reply reservationReply) {
	led := room.ledger
	led.seq++
	l := r.lease
	w := &waiter{id: r.id, lease: l, plan: r.plan, rows: reply.rows, since: r.sentAt, done: r.done}
	if r.plan.Wait.Since > 0 {
		w.since = r.plan.Wait.Since
	}
	w.until = w.since + w.plan.Wait.Max
	w.plan.Wait.Since, w.plan.Wait.Instead = max(w.since, 1), 0
	w.arrived(reply)
	w.plan.Prefix.Blocks = slices.Clone(w.plan.Prefix.Blocks)
	w.plan.Prefix.CreditBytes = slices.Clone(w.plan.Prefix.CreditBytes)
	l.state, l.confirmedSeq, l.reservation, l.waiter = waiting, led.seq, nil, w
	if len(led.waiters) == 0 {
		room.stamp = reply.stamp
	}
	led.waiters[r.id] = w
}

// sendAgain reserves a request again that waits, because its ticket may be lost.
func (room *waitingRoom) sendAgain(now time.Duration, w *waiter) {
	if w.again != nil || room.ledger.client.breaker.open {
		return
	}
	r := room.composer.reservationOf(now, w)
	w.again = r
	room.resending++
	room.reservations.send(now, r)
}

// answerAgain handles the answer to a reservation that was sent again. If it failed, the next heartbeat sends it once
// more if necessary.
func (room *waitingRoom) answerAgain(now time.Duration, r *reservation, reply reservationReply, err error) {
	w := r.waiter
	if w.again = nil; w.lease.state != waiting {
		return // a poll was faster
	}
	switch {
	case err != nil:
	case reply.code >= 0:
		room.claim(now, w, reply)
	case reply.code == codeWaits:
		room.ledger.seq++
		w.rows, w.lease.confirmedSeq = reply.rows, room.ledger.seq
		w.arrived(reply)
	case reply.code != codeUnknownList:
		room.endWait(now, w, reply.err(r))
	}
}

// endWait ends the wait of a request that Redis does not have any more, or not for long.
func (room *waitingRoom) endWait(now time.Duration, w *waiter, err error) {
	room.ledger.removeLease(w.id)
	w.lease.state = released
	room.finishWait(now, w, err)
}

// finishWait tells the caller why the wait of a request has ended.
func (room *waitingRoom) finishWait(now time.Duration, w *waiter, err error) {
	w.done(lb.Grant{Queued: true, Waited: now - w.since}, err)
}

// claim makes a request that waited a lease, which Redis counts already.
func (room *waitingRoom) claim(now time.Duration, w *waiter, reply reservationReply) {
	led := room.ledger
	reply.grant.Queued, reply.grant.Waited = true, now-w.since
	if w.plan.HasBudget() && reply.grant.Left == (budget.Left{}) { // what the queue tells has no room for that
		reply.grant.Left = budget.Left{Tokens: -1, Requests: -1}
	}
	delete(led.waiters, w.id)
	w.lease.charged = w.plan.HasBudget()
	w.lease.turn = turn{class: w.plan.Wait.Class.ID, tenant: w.plan.Wait.Tenant, tokens: max(reply.tokens, 1)}
	led.hold(w.lease, reply, w.plan.Candidates)
	led.recordPrompt(now, &w.plan, w.lease.addr)
	w.done(reply.grant, nil)
}

// sendPoll asks what has become of the requests of the scope that wait.
func (room *waitingRoom) sendPoll(now time.Duration) {
	led := room.ledger
	room.polls++
	b := scriptPoll.command(nil, 3, 3)
	b = appendArg(b, led.keys.Table)
	b = appendArg(b, led.keys.Leases)
	b = appendArg(b, led.keys.Queue)
	b = appendArg(b, room.news)
	b = appendInt(b, int64(room.fetched))
	b = appendInt(b, led.silence().Milliseconds())
	led.seq++
	sent := led.seq
	room.asked = sent
	led.client.send(now, scriptPoll, &led.node, b, false, func(now time.Duration, v Value, err error) {
		room.polls--
		if err != nil {
			return
		}
		v, grants := splitGrants(v, 2)
		if len(v.Items) == 2 && sent > room.answered { // else a later one was faster
			room.answered = sent
			defer room.handlePoll(now, bytes.Clone(v.Items[0].Str), v.Items[1].Str, sent)
		}
		room.passOn(now, grants)
	})
}

// handlePoll handles the answer to a poll that was sent at the given seq: news of the owner's requests, and the
// beginning of the queue.
func (room *waitingRoom) handlePoll(now time.Duration, news, head []byte, sent uint64) {
	room.queue = append(room.queue[:0], head...)
	stamp := ""
	if len(head) >= 2*8 {
		stamp = string(head[8:16])
	}
	room.handleNews(now, news)
	if stamp == room.stamp {
		return
	}
	room.stamp = stamp
	room.sendAllAgain(now, sent)
}

// sendAllAgain reserves all requests again that waited already at the given seq: tickets were lost by then. Leases may
// be, too, so they are asserted first: else those that wait would get their places once more.
func (room *waitingRoom) sendAllAgain(now time.Duration, seq uint64) {
	room.toSend = room.ledger.waitersInOrder(func(w *waiter) bool { return w.lease.confirmedSeq < seq })
	if len(room.toSend) > 0 {
		room.ledger.assertAll(now, seq)
	}
	room.sendNext(now)
}

// sendNext reserves the next ones of toSend again, once the leases of toAssert were sent. A few are on their way at a
// time: all at once they might take Redis longer than requests wait for it.
func (room *waitingRoom) sendNext(now time.Duration) {
	if room.isSending || len(room.ledger.toAssert) > 0 {
		return // an answer came within the call that has sent the command, or assertNext continues
	}
	room.isSending = true
	for len(room.toSend) > 0 && room.resending < maxResending {
		w := room.toSend[0]
		if room.toSend = room.toSend[1:]; w.lease.state == waiting {
			room.sendAgain(now, w)
		}
	}
	room.isSending = false
}

// queueStats returns what the beginning of a queue says, which is empty where nothing waits.
func queueStats(head []byte) (stats lb.QueueStats) {
	in := wire.NewReader(head)
	in.Take(16)
	stats.Waiting = int(in.Uint32())
	in.Take(12 + 20)
	stats.Interval = queue.Interval(in.Float64(), in.Float64(), in.Float64(), in.Float64(), in.Float64())
	classes := in.Byte()
	in.Take(3)
	for range classes {
		id := in.Uint16()
		in.Take(73)
		n := int(in.Uint32())
		if !in.OK() {
			break
		}
		if n > 0 && stats.ByClass == nil {
			stats.ByClass = map[uint16]int{}
		}
		if n > 0 {
			stats.ByClass[id] += n
		}
	}
	return stats
}

// ParseWaiting returns how many requests wait in the queue of a scope. Of the value of [Keys.Queue] the beginning is
// enough: its first hundred bytes.
func ParseWaiting(table, queue []byte) int {
	if len(table) < tableHead || !bytes.HasPrefix(queue, table[:8]) { // else it belongs to an earlier epoch
		return 0
	}
	return queueStats(queue).Waiting
}
