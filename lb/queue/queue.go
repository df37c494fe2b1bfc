package queue

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// Queue is the requests of one scope that wait. The zero value is an empty queue.
type Queue struct {
	lists []list
	line  line
	ended []End // tickets that do not wait any more, for their owners to take them out
	pace  pace
}

// End is what has become of a ticket that does not wait any more.
type End struct {
	Owner  uint64
	ID     lb.LeaseID
	Status Status // Granted or Evicted
	Row    int    // that it was granted
	Tokens int64  // that it counts there
}

// Grant is a request that was granted an endpoint.
type Grant struct {
	Owner uint64
	ID    lb.LeaseID
}

// Waiting returns how many requests wait.
func (q *Queue) Waiting() int { return q.line.waiting }

// MaxPatient is how many tickets may want a certain row before a request that finds another one open takes that. Each
// of them is looked at in every step, for every kind of open endpoint, as long as its patience lasts.
const MaxPatient = 64

// Patient returns how many requests want a certain endpoint.
func (q *Queue) Patient() int { return q.line.patient }

// Stats returns what is known of those that wait.
func (q *Queue) Stats() lb.QueueStats {
	p := &q.pace
	s := lb.QueueStats{Waiting: q.line.waiting, Interval: Interval(p.places, p.time, p.grants, p.gap, p.longest)}
	for i := range q.line.classes {
		if c := &q.line.classes[i]; c.waiting > 0 {
			if s.ByClass == nil {
				s.ByClass = map[uint16]int{}
			}
			s.ByClass[c.id] += c.waiting
		}
	}
	return s
}

// Size returns the number of tickets, granted and evicted ones included.
func (q *Queue) Size() int { return q.line.waiting + len(q.ended) }

// findEnded returns the number of a ticket among those that do not wait any more, -1 for none.
func (q *Queue) findEnded(owner uint64, id lb.LeaseID) int {
	return slices.IndexFunc(q.ended, func(e End) bool { return e.ID == id && e.Owner == owner })
}

// Find returns what has become of a ticket, and the row and tokens of its grant.
func (q *Queue) Find(owner uint64, id lb.LeaseID) (s Status, row int, tokens int64) {
	if i := q.findEnded(owner, id); i >= 0 {
		e := &q.ended[i]
		return e.Status, e.Row, e.Tokens
	}
	if q.line.find(owner, id) >= 0 {
		return Waiting, NoRow, 0
	}
	return Gone, NoRow, 0
}

// Remove takes a ticket out of the queue, and returns what had become of it: the row and tokens of its grant are no
// longer counted by the queue.
func (q *Queue) Remove(owner uint64, id lb.LeaseID) (s Status, row int, tokens int64) {
	if i := q.findEnded(owner, id); i >= 0 {
		e := q.ended[i]
		q.ended = slices.Delete(q.ended, i, i+1)
		return e.Status, e.Row, e.Tokens
	}
	if i := q.line.find(owner, id); i >= 0 {
		q.removeAt(i)
		return Waiting, NoRow, 0
	}
	return Gone, NoRow, 0
}

// removeAt takes the i-th ticket out of those that wait.
func (q *Queue) removeAt(i int) {
	q.lists[q.line.at(i).list()].waiting--
	q.line.removeAt(i)
}

// ReadClock reads the clock of the pace: tickets are removed after that.
func (q *Queue) ReadClock(now time.Duration) {
	if q.line.waiting > 0 {
		q.pace.read(millis(now))
	}
}

// RemoveOwners removes the tickets of owners that are not alive.
func (q *Queue) RemoveOwners(alive func(owner uint64) bool) (removed int) {
	known := map[uint64]bool{}
	dead := func(owner uint64) bool {
		if _, ok := known[owner]; !ok {
			known[owner] = alive(owner)
		}
		return !known[owner]
	}
	before := q.Size()
	q.ended = slices.DeleteFunc(q.ended, func(e End) bool { return dead(e.Owner) })
	for i := q.line.waiting - 1; i >= 0; i-- {
		if dead(q.line.at(i).owner()) {
			q.removeAt(i)
		}
	}
	return before - q.Size()
}

// EachGrant calls f with the row and tokens of each grant that was not claimed yet.
func (q *Queue) EachGrant(f func(row int, tokens int64)) {
	for i := range q.ended {
		if e := &q.ended[i]; e.Status == Granted {
			f(e.Row, e.Tokens)
		}
	}
}

// SilentGrants returns the grants to silent owners that were not claimed yet.
func (q *Queue) SilentGrants(loads Loads) (grants []Grant) {
	for i := range q.ended {
		if e := &q.ended[i]; e.Status == Granted && loads.IsSilent(e.Owner) {
			grants = append(grants, Grant{e.Owner, e.ID})
		}
	}
	return grants
}

// Ended returns the tickets of the owner that do not wait any more.
func (q *Queue) Ended(owner uint64) (of []End) {
	for _, e := range q.ended {
		if e.Owner == owner {
			of = append(of, e)
		}
	}
	return of
}

// WaitingOf returns how many tickets of the owner wait.
func (q *Queue) WaitingOf(owner uint64) (n int) {
	for at := 0; at < len(q.line.tickets); at += recordSize {
		if wire.Uint64(q.line.tickets, at) == owner {
			n++
		}
	}
	return n
}

// EachWaiting calls f with each ticket of the owner that waits.
func (q *Queue) EachWaiting(owner uint64, f func(id lb.LeaseID)) {
	for i := range q.line.waiting {
		if r := q.line.at(i); r.owner() == owner {
			f(r.id())
		}
	}
}
