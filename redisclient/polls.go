package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// Poll implements [lb.Store].
func (s *Store) Poll(now time.Duration) (next time.Duration) {
	if s.owner.undecided > 0 {
		next = now + lb.PollPeriod
	}
	for _, sc := range s.scopes {
		over := sc.ledger.waitersInOrder(func(w *waiter) bool { return s.owner.client.breaker.open || now >= w.until })
		for _, w := range over {
			switch {
			case w.lease.state != waiting: // the end of another wait has ended this one
			case now >= w.until:
				s.Release(now, w.id)
				sc.room.finishWait(now, w, lb.ErrWaitOver)
			default:
				if w.plan.HasBudget() { // it may be granted, and charged, until a heartbeat
					sc.ledger.unrefunded[w.id] = sc.composer.reservationOf(now, w)
				}
				sc.room.endWait(now, w, ErrBreakerOpen)
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
	var next *scope
	waits := false
	for _, sc := range s.scopes {
		waits = waits || len(sc.ledger.waiters) > 0
		if len(sc.ledger.waiters) > 0 && sc.room.polls < maxPolls && (next == nil || sc.room.asked < next.room.asked) {
			next = sc
		}
	}
	switch {
	case !waits:
		return 0
	case next == nil:
		return now + lb.PollPeriod
	case now-s.polledAt >= lb.PollPeriod || now < s.polledAt:
		s.polledAt = now
		next.room.sendPoll(now)
	}
	return s.polledAt + lb.PollPeriod
}

// silence returns in what time this owner is silent in the scope unless it polls before: it polls in turn for those in
// which its requests wait.
func (s *Store) silence(in *scope) time.Duration {
	n := time.Duration(1)
	for _, sc := range s.scopes {
		if sc != in && len(sc.ledger.waiters) > 0 {
			n++
		}
	}
	return n * lb.Silence
}

// Hear takes what OnGrant of another owner's store was called with for this one: what it was granted, before it is told
// by a poll. It may come late, twice, or not at all.
func (s *Store) Hear(now time.Duration, news []byte) {
	in := wire.NewReader(news)
	sc := s.scopes[string(in.Text())]
	if sc == nil || !in.OK() || s.owner.client.breaker.open {
		return
	}
	sc.room.handleEntries(now, in.Rest())
}

// Waits implements [lb.Store]. A request that has waited elsewhere counts from its reservation on.
func (s *Store) Waits(id lb.LeaseID) bool {
	l, ok := s.leases[id]
	return ok && (l.state == waiting || l.state == pending && l.reservation.plan.Wait.Since > 0)
}

// Queue implements [lb.Store], by the latest answer to a poll or to a heartbeat.
func (s *Store) Queue(_ time.Duration, scope string) (stats lb.QueueStats) {
	if sc := s.scopes[s.scopeName(scope)]; sc != nil {
		stats = queueStats(sc.room.queue)
	}
	return stats
}
