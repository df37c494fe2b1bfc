package lb

import (
	"cmp"
	"time"

	"github.com/warmgate/warmgate/internal/order"
)

// A request that waits in the remote store when that fails goes on waiting in the embedded store, with this gateway's
// share of the caps and the time for which it has waited. When the remote store is back, those that still wait take
// their old places there. At any time a request waits in at most one of the two stores.
//
// A reservation that the remote store did not answer may still be carried out there, or meet what was left to prevent
// that; and what a request was granted there after it had left is released by a heartbeat, under its old id. So it has
// another id there when it is reserved again.

const (
	// firstReturns is how many waiting requests go back to the remote store first, and maxReturns how many do later, at
	// a time: twice as many each time, until one is not answered.
	firstReturns, maxReturns = 4, 64
	// returnPeriod is how soon the next ones go back, and failedReturnPeriod how soon they do after one has failed.
	returnPeriod, failedReturnPeriod = 25 * time.Millisecond, 200 * time.Millisecond
	// maxAttempts is how many ids a request has in the remote store, one after the other. They are its own id with the
	// number of the attempt in the bits from attemptBit on.
	maxAttempts, attemptBit = 127, 56
)

// localWait is a request that may wait, until it is answered.
type localWait struct {
	id      LeaseID
	plan    Plan
	since   time.Duration // when it came
	attempt LeaseID
	done    func(Grant, error)
}

// returns is the pace at which waiting requests go back to the remote store. All at once they would be too many for it
// to answer in time, and would all come again.
type returns struct {
	next  time.Duration // when some may go
	batch int           // how many have gone at the latest time, 0 if one was not answered since
}

// failed has them stay away for a while.
func (r *returns) failed(now time.Duration) { *r = returns{next: now + failedReturnPeriod} }

// take returns how many may go now.
func (r *returns) take(now time.Duration) int {
	switch {
	case now < r.next:
		return 0
	case r.batch == 0:
		r.batch = firstReturns
	default:
		r.batch = min(2*r.batch, maxReturns)
	}
	r.next = now + returnPeriod
	return r.batch
}

// reserveWaiting reserves for a request that may wait.
func (s *FallbackStore) reserveWaiting(now time.Duration, id LeaseID, p *Plan, done func(Grant, error)) {
	if w, ok := s.waits[id]; ok {
		first := w.done
		w.done = func(g Grant, err error) { first(g, err); done(g, err) }
		return
	}
	s.ask(now, &localWait{id: id, plan: *p, since: cmp.Or(p.Wait.Since, now), done: done})
}

// ask has the remote store decide, or the embedded one if that does not answer.
func (s *FallbackStore) ask(now time.Duration, w *localWait) {
	if !s.remote.Ready(now) {
		s.waitLocally(now, w, ErrRemoteDown)
		return
	}
	id := w.id | w.attempt<<attemptBit
	if id != w.id {
		s.remoteIDs[w.id] = id
	}
	plan := w.plan
	plan.Wait.Instead, w.plan.Wait.Instead = s.remoteID(plan.Wait.Instead), 0
	s.remote.Reserve(now, id, &plan, func(g Grant, err error) {
		later := max(now, s.now)
		if g.Waited > 0 {
			later = max(later, w.since+g.Waited)
		}
		switch {
		case err == nil:
			s.mirror(later, w.id, &w.plan, g)
			w.done(g, nil)
		case isRefusal(err):
			delete(s.remoteIDs, w.id)
			w.done(g, err)
		default:
			w.attempt = w.attempt%maxAttempts + 1
			if g.Queued {
				w.plan.Wait.Since = w.since
			} else {
				s.returns.failed(later)
			}
			s.waitLocally(later, w, err)
		}
	})
}

// waitLocally has the embedded store decide, because the remote one does not answer.
func (s *FallbackStore) waitLocally(now time.Duration, w *localWait, why error) {
	s.waits[w.id] = w
	s.fallBack(now, w.id, &w.plan, why, func(g Grant, err error) {
		if s.waits[w.id] == w {
			delete(s.waits, w.id)
		}
		if err != nil {
			delete(s.remoteIDs, w.id)
		}
		w.done(g, err)
	})
}

// Poll implements [Store], for the remote store and for requests that wait in the embedded one because of it.
func (s *FallbackStore) Poll(now time.Duration) time.Duration {
	s.now = now
	next := s.remote.Poll(now)
	if len(s.waits) == 0 {
		return next
	}
	if local := s.local.Poll(now); next == 0 || local > 0 && local < next {
		next = local
	}
	if len(s.waits) > 0 && s.remote.Ready(now) {
		if n := s.returns.take(now); n > 0 {
			s.returnWaits(now, n)
		}
		if next == 0 || s.returns.next < next {
			next = s.returns.next
		}
	}
	return next
}

// returnWaits has n requests that wait in the embedded store wait in the remote one again, those first that came first.
func (s *FallbackStore) returnWaits(now time.Duration, n int) {
	all := make([]*localWait, 0, len(s.waits))
	for _, w := range s.waits {
		all = append(all, w)
	}
	order.By(all, func(a, b **localWait) bool {
		return (*a).since < (*b).since || (*a).since == (*b).since && (*a).id < (*b).id
	})
	for _, w := range all[:min(len(all), n)] {
		if s.waits[w.id] != w {
			continue // it was answered while others went
		}
		delete(s.waits, w.id)
		s.local.Release(now, w.id)
		w.plan.Wait.Since = max(w.since, 1)
		s.ask(now, w)
	}
}
