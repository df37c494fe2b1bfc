package redisclient

import (
	"bytes"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
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
	// newsSize is the size in bytes of one entry in the answer to a poll.
	newsSize = 25
	// evictedRow is in place of the row for a request that was evicted.
	evictedRow = 0xffff
	// isNew is the age of a request that has not waited yet.
	isNew = 1<<32 - 1
)

// waiter is a request that waits in Redis.
type waiter struct {
	id    lb.LeaseID
	lease *lease
	plan  lb.Plan
	rows  []byte        // of its candidates: see lua/reserve.lua
	since time.Duration // when it came
	until time.Duration
	again *reservation // on its way, because the ticket may be lost
	done  func(lb.Grant, error)
}

// appendWait appends how a request waits, in the format of lua/enqueue.lua.
func appendWait(b []byte, now, silence time.Duration, l *candidateList, w *lb.Wait) []byte {
	millis := func(d time.Duration) uint32 { return uint32(min(max(d, 0), queue.MaxTime) / time.Millisecond) }
	age, strict := uint32(isNew), byte(0)
	if w.Since > 0 {
		age = millis(now - w.Since)
	}
	if w.Strict {
		strict = 1
	}
	var place lb.Place
	if w.Place != nil && w.Since > 0 {
		place = *w.Place
	}
	key := l.endpoints ^ w.Limits
	if l.limits != nil {
		key = ^key
	}
	var room [84]byte
	arg := wire.Writer(room[:0]).Uint32(age).Uint32(millis(w.Max)).Uint32(millis(w.Aging)).
		Uint32(millis(w.Patience)).Uint16(uint16(min(max(w.Skip, 0), queue.MaxSkip))).Uint16(w.Class.ID).
		Byte(w.Class.Rank).Uint16(uint16(min(w.Class.Reserved, 1<<16-1))).Byte(strict).Float64(w.Class.Weight).
		Uint32(uint32(max(w.Length, 0))).Uint32(uint32(max(w.TenantLength, 0))).
		Uint32(uint32(max(w.Reserved, 0))).Uint32(key).Uint(6, place.Came).Uint32(place.Number).
		Uint32(millis(silence)).Uint64(w.Tenant)
	if w.Instead != 0 {
		arg = arg.Uint64(uint64(w.Instead))
	}
	return appendArg(b, arg)
}

// await notes that a request waits in Redis.
func (s *Store) await(r *reservation, reply reservationReply) {
	s.seq++
	l := r.lease
	sc := l.scope
	w := &waiter{id: r.id, lease: l, plan: r.plan, rows: reply.rows, since: r.sentAt, done: r.done}
	if r.plan.Wait.Since > 0 {
		w.since = r.plan.Wait.Since
	}
	w.until = w.since + w.plan.Wait.Max
	w.plan.Wait.Since, w.plan.Wait.Instead = max(w.since, 1), 0
	w.arrived(reply)
	w.plan.Prefix.Blocks = slices.Clone(w.plan.Prefix.Blocks)
	w.plan.Prefix.CreditBytes = slices.Clone(w.plan.Prefix.CreditBytes)
	l.state, l.confirmedSeq, l.reservation, l.waiter = waiting, s.seq, nil, w
	if len(sc.waiters) == 0 {
		sc.stamp = reply.stamp
	}
	sc.waiters[r.id] = w
}

// arrived notes when the request came by the clock of Redis, if the answer tells.
func (w *waiter) arrived(reply reservationReply) {
	wait := &w.plan.Wait
	if wait.Place == nil {
		wait.Place = &lb.Place{}
	}
	if reply.place.Came > 0 {
		*wait.Place = reply.place
	}
}

// sendAgain reserves a request again that waits, because its ticket may be lost.
func (s *Store) sendAgain(now time.Duration, w *waiter) {
	if w.again != nil || s.client.breaker.open {
		return
	}
	r := s.reservationOf(now, w)
	w.again = r
	w.lease.scope.resending++
	s.send(now, r)
}

// reservationOf returns the reservation of a request that waits already.
func (s *Store) reservationOf(now time.Duration, w *waiter) *reservation {
	r := &reservation{
		id: w.id, lease: w.lease, List: w.plan.List, limits: limitsOf(&w.plan), plan: w.plan, waiter: w,
		sentAt: now,
		done:   func(lb.Grant, error) {},
	}
	s.setCommand(now, r, &w.plan)
	return r
}

// answerAgain handles the answer to a reservation that was sent again. If it failed, the next heartbeat sends it once
// more if necessary.
func (s *Store) answerAgain(now time.Duration, r *reservation, reply reservationReply, err error) {
	w := r.waiter
	if w.again = nil; w.lease.state != waiting {
		return // a poll was faster
	}
	switch {
	case err != nil:
	case reply.code >= 0:
		s.claim(now, w, reply)
	case reply.code == codeWaits:
		s.seq++
		w.rows, w.lease.confirmedSeq = reply.rows, s.seq
		w.arrived(reply)
	case reply.code != codeUnknownList:
		s.endWait(now, w, reply.err(r))
	}
}

// Poll implements [lb.Store].
func (s *Store) Poll(now time.Duration) (next time.Duration) {
	if s.undecided > 0 {
		next = now + lb.PollPeriod
	}
	for _, sc := range s.scopes {
		over := sc.waitersInOrder(func(w *waiter) bool { return s.client.breaker.open || now >= w.until })
		for _, w := range over {
			switch {
			case w.lease.state != waiting: // the end of another wait has ended this one
			case now >= w.until:
				s.Release(now, w.id)
				s.finishWait(now, w, lb.ErrWaitOver)
			default:
				if w.plan.HasBudget() { // it may be granted, and charged, until a heartbeat
					sc.unrefunded[w.id] = s.reservationOf(now, w)
				}
				s.endWait(now, w, ErrBreakerOpen)
			}
		}
	}
	if due := s.pollNext(now); next == 0 || due > 0 && due < next {
		next = due
	}
	return next
}

// pollNext sends a poll if one is due: for the scope, of those in which requests wait, whose turn was longest ago. It
// returns when the next one is due, 0 if no request waits.
func (s *Store) pollNext(now time.Duration) time.Duration {
	var next *scopeState
	waits := false
	for _, sc := range s.scopes {
		waits = waits || len(sc.waiters) > 0
		if len(sc.waiters) > 0 && sc.polls < maxPolls && (next == nil || sc.asked < next.asked) {
			next = sc
		}
	}
	switch {
	case !waits:
		return 0
	case next == nil:
		return now + lb.PollPeriod
	case now-s.polledAt >= lb.PollPeriod || now < s.polledAt:
		s.sendPoll(now, next)
	}
	return s.polledAt + lb.PollPeriod
}

// silence returns in what time this owner is silent in the scope unless it polls before: it polls in turn for those in
// which its requests wait.
func (s *Store) silence(in *scopeState) time.Duration {
	n := time.Duration(1)
	for _, sc := range s.scopes {
		if sc != in && len(sc.waiters) > 0 {
			n++
		}
	}
	return n * lb.Silence
}

// waitersInOrder returns those of the scope's requests that wait for which is is true, in the order in which they came.
func (sc *scopeState) waitersInOrder(is func(*waiter) bool) (all []*waiter) {
	for _, w := range sc.waiters {
		if is(w) {
			all = append(all, w)
		}
	}
	order.By(all, func(a, b **waiter) bool {
		return (*a).since < (*b).since || (*a).since == (*b).since && (*a).id < (*b).id
	})
	return all
}

// endWait ends the wait of a request that Redis does not have any more, or not for long.
func (s *Store) endWait(now time.Duration, w *waiter, err error) {
	s.removeLease(w.id)
	w.lease.state = released
	s.finishWait(now, w, err)
}

// finishWait tells the caller why the wait of a request has ended.
func (s *Store) finishWait(now time.Duration, w *waiter, err error) {
	w.done(lb.Grant{Queued: true, Waited: now - w.since}, err)
}

// claim makes a request that waited a lease, which Redis counts already.
func (s *Store) claim(now time.Duration, w *waiter, reply reservationReply) {
	reply.grant.Queued, reply.grant.Waited = true, now-w.since
	if w.plan.HasBudget() && reply.grant.Left == (budget.Left{}) { // what the queue tells has no room for that
		reply.grant.Left = budget.Left{Tokens: -1, Requests: -1}
	}
	delete(w.lease.scope.waiters, w.id)
	w.lease.charged = w.plan.HasBudget()
	w.lease.turn = turn{class: w.plan.Wait.Class.ID, tenant: w.plan.Wait.Tenant, tokens: max(reply.tokens, 1)}
	s.hold(w.lease, reply, w.plan.Candidates)
	s.RecordPrompt(now, w.id, &w.plan, w.lease.addr)
	w.done(reply.grant, nil)
}

// sendPoll asks what has become of the requests of the scope that wait.
func (s *Store) sendPoll(now time.Duration, sc *scopeState) {
	s.polledAt = now
	sc.polls++
	b := scriptPoll.command(nil, 3, 3)
	b = appendArg(b, sc.keys.Table)
	b = appendArg(b, sc.keys.Leases)
	b = appendArg(b, sc.keys.Queue)
	b = appendArg(b, sc.news)
	b = appendInt(b, int64(sc.fetched))
	b = appendInt(b, s.silence(sc).Milliseconds())
	s.seq++
	sent := s.seq
	sc.asked = sent
	s.client.send(now, scriptPoll, &sc.node, b, false, func(now time.Duration, v Value, err error) {
		sc.polls--
		if err != nil {
			return
		}
		v, grants := splitGrants(v, 2)
		if len(v.Items) == 2 && sent > sc.answered { // else a later one was faster
			sc.answered = sent
			defer s.handlePoll(now, sc, bytes.Clone(v.Items[0].Str), v.Items[1].Str, sent)
		}
		s.passOn(now, sc, grants)
	})
}

// handlePoll handles the answer to a poll that was sent at the given seq: news of the owner's requests, and the
// beginning of the queue.
func (s *Store) handlePoll(now time.Duration, sc *scopeState, news, head []byte, sent uint64) {
	sc.queue = append(sc.queue[:0], head...)
	stamp := ""
	if len(head) >= 2*8 {
		stamp = string(head[8:16])
	}
	s.handleNews(now, sc, news)
	if stamp == sc.stamp {
		return
	}
	sc.stamp = stamp
	s.sendAllAgain(now, sc, sent)
}

// sendAllAgain reserves all requests again that waited already at the given seq: tickets were lost by then. Leases may
// be, too, so they are asserted first: else those that wait would get their places once more.
func (s *Store) sendAllAgain(now time.Duration, sc *scopeState, seq uint64) {
	if sc.toSend = sc.waitersInOrder(func(w *waiter) bool { return w.lease.confirmedSeq < seq }); len(sc.toSend) > 0 {
		s.assertAll(now, sc, seq)
	}
	s.sendNext(now, sc)
}

// sendNext reserves the next ones of toSend again, once the leases of toAssert were sent. A few are on their way at a
// time: all at once they might take Redis longer than requests wait for it.
func (s *Store) sendNext(now time.Duration, sc *scopeState) {
	if sc.isSending || len(sc.toAssert) > 0 {
		return // an answer came within the call that has sent the command, or assertNext continues
	}
	sc.isSending = true
	for len(sc.toSend) > 0 && sc.resending < maxResending {
		w := sc.toSend[0]
		if sc.toSend = sc.toSend[1:]; w.lease.state == waiting {
			s.sendAgain(now, w)
		}
	}
	sc.isSending = false
}

// indexOf returns the index of the candidate in the row, -1 for none.
func (w *waiter) indexOf(row uint16) int {
	in, i := wire.NewReader(w.rows), 0
	for in.Len() > 0 {
		first, count := int(in.Uint16()), int(in.Uint16())
		if int(row) >= first && int(row) < first+count {
			i += int(row) - first
			if i >= len(w.plan.Candidates) {
				return -1
			}
			return i
		}
		i += count
	}
	return -1
}

// Waits implements [lb.Store]. A request that has waited elsewhere counts from its reservation on.
func (s *Store) Waits(id lb.LeaseID) bool {
	l, ok := s.leases[id]
	return ok && (l.state == waiting || l.state == pending && l.reservation.plan.Wait.Since > 0)
}

// Queue implements [lb.Store], by the latest answer to a poll or to a heartbeat.
func (s *Store) Queue(_ time.Duration, scope string) (stats lb.QueueStats) {
	if sc := s.scopes[s.scopeName(scope)]; sc != nil {
		stats = queueStats(sc.queue)
	}
	return stats
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
