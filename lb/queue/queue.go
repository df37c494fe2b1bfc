package queue

import (
	"errors"
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// ErrDamaged is returned for a value that is not a packed queue.
var ErrDamaged = errors.New("queue: damaged value")

// Queue is the requests of one scope that wait. The zero value is an empty queue.
type Queue struct {
	lists   []list
	classes []class
	flows   []flow
	tickets []byte // records, in the order in which the requests came
	waiting int    // how many of them wait

	strict  bool    // as the latest request wants it
	virtual float64 // virtual time of the class that was served last
	pace    pace
}

// list is a list of endpoints that requests may use. Requests with the same one share the latest caps.
type list struct {
	key     uint32
	entries []Entry
}

// Entry is an endpoint of a list.
type Entry struct {
	Row      int
	Cap      int64 // requests in flight at which the endpoint is full; 0 for no cap
	TokenCap int64 // tokens in flight at which it is, too; 0 for no cap
}

// class is the state of a service class.
type class struct {
	id       uint16
	rank     uint8
	reserved uint16
	weight   float64
	served   float64 // virtual time: tokens served, divided by the weight
	virtual  float64 // virtual time of the class's flow that was served last
	waiting  int     // not packed
}

// flow is the requests of one tenant in one class.
type flow struct {
	class   uint8 // number of the class
	tenant  uint64
	served  float64 // virtual time: tokens served
	waiting int     // not packed
}

// A packed queue is
//
//	offset  size  header
//	0       4     magic, "WGQ2"
//	4       1     number of lists
//	5       1     number of classes
//	6       2     number of flows
//	8       4     number of tickets
//	12      1     1 for strict order
//	13      1     how many intervals the pace is of
//	14      2     0
//	16      4     when a request was granted last, in ms
//	20      4     0
//	24      8     mean interval between grants in ms, float64
//	32      8     virtual time, float64
//
// then the lists, each of key 4, number of endpoints 2, and for each row 2, cap 4 and cap in tokens 6; then the
// classes, each of id 2, rank 1, reserved 2, weight 8, served 8, virtual 8; then the flows, each of class 1, tenant 8,
// served 8; and then the tickets: see record.
const (
	magic      = 0x32514757
	headerSize = 40
	entrySize  = 12
	maxLists   = 255
	maxClasses = 255
	maxFlows   = 1 << 15
	// maxTokenCap is how many tokens a store in Redis counts at most.
	maxTokenCap = 1<<48 - 1
)

// Is reports whether b begins as a packed queue does.
func Is(b []byte) bool { return len(b) >= headerSize && wire.Uint32(b, 0) == magic }

// Decode reads a packed queue. The queue keeps and changes b. It returns ErrDamaged for a value of another format.
func Decode(b []byte) (*Queue, error) {
	q := &Queue{}
	if len(b) == 0 {
		return q, nil
	}
	in := wire.NewReader(b)
	if in.Uint32() != magic {
		return nil, ErrDamaged
	}
	lists, classes, flows, tickets := int(in.Byte()), int(in.Byte()), int(in.Uint16()), int(in.Uint32())
	q.strict = in.Byte() == 1
	q.pace.count = in.Byte()
	in.Take(2)
	q.pace.last = in.Uint32()
	in.Take(4)
	q.pace.interval, q.virtual = in.Float64(), in.Float64()
	for range lists {
		l := list{key: in.Uint32()}
		entries := wire.NewReader(in.Take(int(in.Uint16()) * entrySize))
		for entries.Len() > 0 {
			e := Entry{int(entries.Uint16()), int64(entries.Uint32()), int64(entries.Uint(6))}
			l.entries = append(l.entries, e)
		}
		q.lists = append(q.lists, l)
	}
	for range classes {
		q.classes = append(q.classes, class{
			id: in.Uint16(), rank: in.Byte(), reserved: in.Uint16(),
			weight: in.Float64(), served: in.Float64(), virtual: in.Float64(),
		})
	}
	for range flows {
		q.flows = append(q.flows, flow{class: in.Byte(), tenant: in.Uint64(), served: in.Float64()})
	}
	q.tickets = in.Take(tickets * recordSize)
	if !in.OK() || in.Len() > 0 || !q.countWaiting() {
		return nil, ErrDamaged
	}
	return q, nil
}

// countWaiting sets what is not packed. It reports whether all numbers are within their bounds.
func (q *Queue) countWaiting() bool {
	for i := range q.flows {
		if int(q.flows[i].class) >= len(q.classes) {
			return false
		}
	}
	for at := 0; at < len(q.tickets); at += recordSize {
		r := record(q.tickets[at:][:recordSize])
		if r.flow() >= len(q.flows) || r.list() >= len(q.lists) || r.status() > Evicted {
			return false
		}
		if r.status() == Waiting {
			q.countTicket(r, 1)
		}
	}
	return true
}

// countTicket adds n tickets that wait to the counts.
func (q *Queue) countTicket(r record, n int) {
	f := &q.flows[r.flow()]
	q.waiting += n
	f.waiting += n
	q.classes[f.class].waiting += n
}

// Append appends the packed queue to b. A queue without tickets is dropped some time after its last grant: then
// nothing is appended.
func (q *Queue) Append(b []byte, now time.Duration) []byte {
	if len(q.tickets) == 0 {
		if q.pace.count == 0 || millis(now)-q.pace.last > millis(paceMemory) {
			return b
		}
		q.lists, q.classes, q.flows, q.virtual = nil, nil, nil, 0
	}
	strict := uint8(0)
	if q.strict {
		strict = 1
	}
	w := wire.Writer(b).Uint32(magic).Byte(uint8(len(q.lists))).Byte(uint8(len(q.classes)))
	w = w.Uint16(uint16(len(q.flows))).Uint32(uint32(q.Size())).Byte(strict).Byte(q.pace.count).Uint16(0)
	w = w.Uint32(q.pace.last).Uint32(0).Float64(q.pace.interval).Float64(q.virtual)
	for i := range q.lists {
		l := &q.lists[i]
		w = w.Uint32(l.key).Uint16(uint16(len(l.entries)))
		for _, e := range l.entries {
			w = w.Uint16(uint16(e.Row)).Uint32(uint32(min(e.Cap, math.MaxUint32))).
				Uint(6, uint64(min(e.TokenCap, maxTokenCap)))
		}
	}
	for i := range q.classes {
		c := &q.classes[i]
		w = w.Uint16(c.id).Byte(c.rank).Uint16(c.reserved).Float64(c.weight).Float64(c.served).Float64(c.virtual)
	}
	for i := range q.flows {
		f := &q.flows[i]
		w = w.Byte(f.class).Uint64(f.tenant).Float64(f.served)
	}
	return append(w, q.tickets...)
}

// Waiting returns how many requests wait.
func (q *Queue) Waiting() int { return q.waiting }

// Stats returns what is known of those that wait.
func (q *Queue) Stats() lb.QueueStats {
	s := lb.QueueStats{Waiting: q.waiting, Interval: q.pace.mean()}
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

// at returns the i-th ticket.
func (q *Queue) at(i int) record { return q.tickets[i*recordSize:][:recordSize] }

// Size returns the number of tickets, granted and evicted ones included.
func (q *Queue) Size() int { return len(q.tickets) / recordSize }

// find returns the number of a ticket, -1 for none.
func (q *Queue) find(owner uint64, id lb.LeaseID) int {
	for i := range q.Size() {
		if r := q.at(i); r.id() == id && r.owner() == owner {
			return i
		}
	}
	return -1
}

// Find returns what has become of a ticket, and the row and tokens of its grant.
func (q *Queue) Find(owner uint64, id lb.LeaseID) (s Status, row int, tokens int64) {
	i := q.find(owner, id)
	if i < 0 {
		return Gone, NoRow, 0
	}
	r := q.at(i)
	return r.status(), r.row(), r.rowTokens()
}

// Remove takes a ticket out of the queue, and returns what had become of it: the row and tokens of its grant are no
// longer counted by the queue.
func (q *Queue) Remove(owner uint64, id lb.LeaseID) (s Status, row int, tokens int64) {
	i := q.find(owner, id)
	if i < 0 {
		return Gone, NoRow, 0
	}
	r := q.at(i)
	s, row, tokens = r.status(), r.row(), r.rowTokens()
	q.removeAt(i)
	return s, row, tokens
}

func (q *Queue) removeAt(i int) {
	if r := q.at(i); r.status() == Waiting {
		q.countTicket(r, -1)
	}
	q.tickets = append(q.tickets[:i*recordSize], q.tickets[(i+1)*recordSize:]...)
}

// RemoveOwners removes the tickets of owners that are not alive.
func (q *Queue) RemoveOwners(alive func(owner uint64) bool) (removed int) {
	for i := q.Size() - 1; i >= 0; i-- {
		if !alive(q.at(i).owner()) {
			q.removeAt(i)
			removed++
		}
	}
	return removed
}

// EachGrant calls f with the row and tokens of each grant that was not claimed yet.
func (q *Queue) EachGrant(f func(row int, tokens int64)) {
	for i := range q.Size() {
		if r := q.at(i); r.status() == Granted {
			f(r.row(), r.rowTokens())
		}
	}
}

// Each calls f with each ticket of the owner and what has become of it.
func (q *Queue) Each(owner uint64, f func(id lb.LeaseID, s Status)) {
	for i := range q.Size() {
		if r := q.at(i); r.owner() == owner {
			f(r.id(), r.status())
		}
	}
}
