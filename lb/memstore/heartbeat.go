package memstore

import (
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

// Flush writes the pending steps. Call it about ten times a second.
func (s *Store) Flush(now time.Duration) { s.ledger.flush(now) }

// Poll implements [lb.Store].
func (s *Store) Poll(now time.Duration) time.Duration {
	next := time.Duration(0)
	for _, sc := range s.ledger.scopes {
		if len(sc.waiters) == 0 && !sc.left {
			continue
		}
		s.pollScope(now, sc)
		if len(sc.waiters) > 0 {
			next = now + lb.PollPeriod
		}
	}
	s.requests.answer(now)
	return next
}

// pollScope brings the requests of one scope up to date that wait. Most of the time nothing has changed: then it only
// reads.
func (s *Store) pollScope(now time.Duration, sc *scope) {
	start := poll{owner: s.self.owner, placer: &s.placer, scope: sc}
	p := start
	s.self.showLife(now)
	err := s.ledger.swap(now, sc, func(d *draft) error {
		p = start // an earlier try may have changed it
		p.changed = d.takeBack()
		p.advance(now, d)
		if p.changed || d.dispatch(now, s.self.owner) {
			return nil
		}
		return errUnchanged
	})
	if err != nil {
		p.overdue(now)
	}
	if err == nil && p.firstOver > 0 {
		sc.firstOver = p.firstOver
	}
	sc.left = err != nil || p.more
	for _, id := range order.Keys(p.ended) { // in the order in which they came
		s.requests.end(sc, id, p.ended[id])
	}
}

// Heartbeat implements [lb.Store]. An owner without a reservation so far is not in the owner directory: it only returns
// the leases of others.
func (s *Store) Heartbeat(now time.Duration) error {
	for id, forget := range s.releasedEarly {
		if now >= forget {
			delete(s.releasedEarly, id)
		}
	}
	if s.self.index >= 0 {
		kept, err := s.ledger.register(now)
		if err != nil {
			return err
		}
		s.ledger.rejoin(now, !kept)
	}
	s.Flush(now)
	s.Poll(now)
	s.retryFailed(now)
	return s.sweeper.sweep(now)
}

// retryFailed releases and amends again what could not be written.
func (s *Store) retryFailed(now time.Duration) {
	failed := s.failedReleases
	s.failedReleases = nil
	for _, id := range failed {
		s.Release(now, id)
	}
	for _, id := range order.Keys(s.failedAmends) {
		if a, ok := s.failedAmends[id]; ok {
			s.Amend(now, id, a.addr, a.tokens)
		}
	}
}
