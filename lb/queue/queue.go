package queue

import (
	"slices"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// Queue is the requests of one scope that wait. The zero value is an empty queue.
type Queue struct {
	lists   []list
	classes []class
	flows   []flow
	ended   []End  // tickets that do not wait any more, for their owners to take them out
	tickets []byte // records of those that wait, by flow, and in each in the order in which they came
	waiting int    // how many these are
	patient int    // how many of them want a certain row
	number  uint32 // of the next ticket

	strict  bool    // as the latest request wants it
	skip    int     // the most others that one of those that wait may pass, or one that has waited before
	virtual float64 // virtual time of the class that was served last
	pace    pace

	spare []byte // memory for tickets when there are more than in the packed queue
}

// list is a list of endpoints that requests may use. Requests with the same one share the latest caps.
type list struct {
	key     uint32
	entries []Entry
	budgets bool    // the endpoints have budgets: see budget.go
	bonus   float64 // tokens a second that are set aside for who waits for them
	waiting int     // tickets that have it; not packed
}

// Entry is an endpoint of a list.
type Entry struct {
	Row      int
	Cap      int64 // requests in flight at which the endpoint is full; 0 for no cap
	TokenCap int64 // tokens in flight at which it is, too; 0 for no cap
	Limits   budget.Limits
}

// class is the state of a service class.
type class struct {
	id       uint16
	rank     uint8
	reserved uint16
	weight   float64
	served   float64 // virtual time: tokens served, divided by the weight
	virtual  float64 // virtual time of the class's flow that was served last
	due      float64 // tokens that it is owed since its requests have waited for their aging: see aging.go
	odd      float64 // part of its latest grants that were out of turn, 0 to 1
	share    share
	came     uint32  // when the latest ticket of it came, in ms
	waiting  int     // not packed
	tokens   float64 // of its tickets; not packed
}

// flow is the requests of one tenant in one class.
type flow struct {
	class   uint8 // number of the class
	tenant  uint64
	served  float64 // virtual time: tokens served
	share   share
	came    uint32 // when the latest ticket of it came, in ms
	waiting int
	first   int     // number of its first ticket; not packed
	tokens  float64 // of its tickets; not packed
}

// end returns the number behind that of the flow's last ticket.
func (f *flow) end() int { return f.first + f.waiting }

// End is what has become of a ticket that does not wait any more.
type End struct {
	Owner  uint64
	ID     lb.LeaseID
	Status Status // Granted or Evicted
	Row    int    // that it was granted
	Tokens int64  // that it counts there
}

// Waiting returns how many requests wait.
func (q *Queue) Waiting() int { return q.waiting }

// MaxPatient is how many tickets may want a certain row before a request that finds another one open takes that. Each
// of them is looked at in every step, for every kind of open endpoint, as long as its patience lasts.
const MaxPatient = 64

// Patient returns how many requests want a certain endpoint.
func (q *Queue) Patient() int { return q.patient }

// Stats returns what is known of those that wait.
func (q *Queue) Stats() lb.QueueStats {
	p := &q.pace
	s := lb.QueueStats{Waiting: q.waiting, Interval: Interval(p.places, p.time, p.grants, p.gap, p.longest)}
	for i := range q.classes {
		if c := &q.classes[i]; c.waiting > 0 {
			if s.ByClass == nil {
				s.ByClass = map[uint16]int{}
			}
			s.ByClass[c.id] += c.waiting
		}
	}
	return s
}

// at returns the i-th ticket of those that wait.
func (q *Queue) at(i int) record { return q.tickets[i*recordSize:][:recordSize] }

// Size returns the number of tickets, granted and evicted ones included.
func (q *Queue) Size() int { return q.waiting + len(q.ended) }

// waitingTicket returns the number of a ticket that waits, -1 for none.
func (q *Queue) waitingTicket(owner uint64, id lb.LeaseID) int {
	for i := range q.waiting {
		if r := q.at(i); r.id() == id && r.owner() == owner {
			return i
		}
	}
	return -1
}

// findEnded returns the number of a ticket among those that do not wait any more, -1 for none.
func (q *Queue) findEnded(owner uint64, id lb.LeaseID) int {
	return slices.IndexFunc(q.ended, func(e End) bool { return e.ID == id && e.Owner == owner })
}

// findClass returns the number of the class with the id, -1 if there is none.
func (q *Queue) findClass(id uint16) int {
	return slices.IndexFunc(q.classes, func(c class) bool { return c.id == id })
}

// findFlow returns the flow of a tenant in the class with the number, nil if there is none.
func (q *Queue) findFlow(number int, tenant uint64) *flow {
	for i := range q.flows {
		if f := &q.flows[i]; int(f.class) == number && f.tenant == tenant {
			return f
		}
	}
	return nil
}

// flowAt returns the flow of the i-th ticket.
func (q *Queue) flowAt(i int) *flow {
	f := slices.IndexFunc(q.flows, func(f flow) bool { return i < f.end() })
	return &q.flows[f]
}

// Find returns what has become of a ticket, and the row and tokens of its grant.
func (q *Queue) Find(owner uint64, id lb.LeaseID) (s Status, row int, tokens int64) {
	if i := q.findEnded(owner, id); i >= 0 {
		e := &q.ended[i]
		return e.Status, e.Row, e.Tokens
	}
	if q.waitingTicket(owner, id) >= 0 {
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
	if i := q.waitingTicket(owner, id); i >= 0 {
		q.removeAt(i)
		return Waiting, NoRow, 0
	}
	return Gone, NoRow, 0
}

// removeAt takes the i-th ticket out of those that wait. Those on the shorter side of it are moved.
func (q *Queue) removeAt(i int) {
	r := q.at(i)
	q.count(q.flowAt(i), -1, r)
	q.lists[r.list()].waiting--
	if r.wants() != NoRow {
		q.patient--
	}
	at, t := i*recordSize, q.tickets
	if at < len(t)/2 {
		copy(t[recordSize:], t[:at])
		q.tickets = t[recordSize:]
	} else {
		q.tickets = append(t[:at], t[at+recordSize:]...)
	}
}

// count adds a ticket that waits to the counts of a flow, n is 1, or takes it out of them, n is -1.
func (q *Queue) count(f *flow, n int, r record) {
	c, tokens := &q.classes[f.class], float64(n)*r.work()
	q.waiting += n
	f.waiting, f.tokens = f.waiting+n, f.tokens+tokens
	c.waiting, c.tokens = c.waiting+n, c.tokens+tokens
	q.setFirsts()
}

// setFirsts sets where the tickets of each flow begin.
func (q *Queue) setFirsts() {
	first := 0
	for i := range q.flows {
		q.flows[i].first = first
		first += q.flows[i].waiting
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
	for i := q.waiting - 1; i >= 0; i-- {
		if dead(q.at(i).owner()) {
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
	for at := 0; at < len(q.tickets); at += recordSize {
		if wire.Uint64(q.tickets, at) == owner {
			n++
		}
	}
	return n
}

// EachWaiting calls f with each ticket of the owner that waits.
func (q *Queue) EachWaiting(owner uint64, f func(id lb.LeaseID)) {
	for i := range q.waiting {
		if r := q.at(i); r.owner() == owner {
			f(r.id())
		}
	}
}
