package core

import (
	"cmp"
	"slices"

	"github.com/warmgate/warmgate/lb"
)

// A VM holds the bodies of its waiting requests, up to its part of queue.max_bytes. When that is used up, the tenant
// that holds most makes room for others: its youngest requests leave, as out of a full queue. Each such step takes from
// the one with most for one that then has less than that, so no two tenants take room from each other in turns.

const (
	// maxLeaving is how many requests leave for one at most: all that wait are looked at for each.
	maxLeaving = 64
	// claimBytes is how much of a body that the gateway holds in front of the plugin counts at most: it stops reading
	// at a limit of its own, and a client that only announces a body must not take the room of others.
	claimBytes = 1 << 20
)

// heldBytes returns how much of the request's body is held for it while it waits, as far as that is known.
func (s *Stream) heldBytes() int { return max(s.body.received, min(s.traits.length, claimBytes)) }

// roomFor returns the requests that leave for the request to be held with n bytes, none if there is room, and false if
// it must not be held. If VMs have come since, and each has a smaller part, nobody leaves because of that.
func (w *waiters) roomFor(s *Stream, n int) (leave []*Stream, ok bool) {
	counted := w.held[s]
	own, others := w.of[s.wait.turn]-counted, w.bytes-counted
	freed := map[uint64]int{}
	for missing := n - max(0, s.cfg.Queue.MaxBytes/w.owners-others); missing > 0; {
		tenant, most := w.mostHeld(s.wait.turn, freed)
		next := w.youngestOf(tenant, leave)
		left := most
		if own > 0 {
			left -= w.held[next]
		}
		if next == nil || own+n >= most || own+n > left || len(leave) == maxLeaving {
			return nil, false
		}
		freed[tenant] += w.held[next]
		missing -= w.held[next]
		leave = append(leave, next)
	}
	return leave, true
}

// mostHeld returns the tenant of whom most is held, but the given one, and how much that is without what was freed.
func (w *waiters) mostHeld(except uint64, freed map[uint64]int) (tenant uint64, most int) {
	for t, n := range w.of {
		if n -= freed[t]; t != except && (n > most || n == most && t < tenant) {
			tenant, most = t, n
		}
	}
	return tenant, most
}

// youngestOf returns the tenant's youngest request, of its lowest class, but those that leave; nil for none.
func (w *waiters) youngestOf(tenant uint64, leave []*Stream) (youngest *Stream) {
	for s, n := range w.held {
		if s.wait.turn != tenant || n == 0 || slices.Contains(leave, s) {
			continue
		}
		if youngest == nil || cmp.Or(cmp.Compare(s.wait.class.Rank, youngest.wait.class.Rank),
			cmp.Compare(s.wait.since, youngest.wait.since), cmp.Compare(s.lease.id, youngest.lease.id)) > 0 {
			youngest = s
		}
	}
	return youngest
}

// mayHold reports whether the body of one more waiting request may be held. In Redis it waits only once that has
// answered, and nobody leaves before: until then a quarter more may be held, or this one.
func (w *waiters) mayHold(s *Stream) bool {
	n, limit := s.heldBytes(), s.cfg.Queue.MaxBytes/w.owners
	_, ok := w.roomFor(s, n)
	return ok && (len(w.beyond) == 0 || w.bytes+n <= limit+limit/4)
}

// add notes that a request waits, and has others leave for it.
func (w *waiters) add(s *Stream) {
	n := s.heldBytes()
	w.count(s, n)
	inRedis := s.lease.redis != nil // then it may only wait for an answer
	if !inRedis {
		s.cluster.waiting++
	}
	switch {
	case s.wait.queued: // planned anew: it was held before
	case !inRedis:
		w.makeRoom(s, n)
	case n > 0 && w.bytes > s.cfg.Queue.MaxBytes/w.owners:
		w.beyond = append(w.beyond, s)
	}
}

// makeRoom has others leave for the request to be held with n bytes. It returns false if it must not be held.
func (w *waiters) makeRoom(s *Stream, n int) bool {
	leave, ok := w.roomFor(s, n)
	for _, other := range leave {
		w.runAs(other.context, "room for another request", other.giveWay, other.grantRecovered)
	}
	return ok
}

// grow notes that more of the body of a request is held. It returns false if that is too much.
func (w *waiters) grow(s *Stream) bool {
	n, ok := w.held[s]
	more := s.heldBytes() - n
	if !ok || more <= 0 {
		return true
	}
	if !w.makeRoom(s, n+more) {
		return false
	}
	w.count(s, more)
	return true
}

// settle has requests leave for those that were held beyond the room there is and wait in Redis by now.
func (w *waiters) settle() {
	if len(w.beyond) == 0 {
		return
	}
	beyond := w.beyond
	w.beyond = nil
	for _, s := range beyond {
		n, ok := w.held[s]
		switch {
		case !ok: // it waits no longer
		case !s.isQueued():
			w.beyond = append(w.beyond, s)
		case !w.makeRoom(s, n):
			w.runAs(s.context, "room for other requests", s.giveWay, s.grantRecovered)
		}
	}
}

// count counts n more bytes of a request.
func (w *waiters) count(s *Stream, n int) {
	w.held[s] += n
	w.bytes += n
	w.of[s.wait.turn] += n
}

// remove notes that a request waits no longer, if it did.
func (w *waiters) remove(s *Stream) {
	n, ok := w.held[s]
	if !ok {
		return
	}
	w.count(s, -n)
	delete(w.held, s)
	if w.of[s.wait.turn] == 0 {
		delete(w.of, s.wait.turn)
	}
	if s.lease.redis == nil {
		s.cluster.waiting--
	}
}

// giveWay ends the wait of the request, whose memory another one needs, as if the queue had been full.
func (s *Stream) giveWay() {
	l := &s.lease
	r := &l.reservation
	if s.phase != phaseReserving || r.done {
		return
	}
	r.inCallback = true // whatever the store answers to this
	l.store.Release(l.now(), l.id)
	r.inCallback = false
	r.done, r.grant, r.err = true, lb.Grant{Queued: true}, lb.ErrEvicted
	if s.finishReservation() == Proceed {
		s.Resume()
	}
}
