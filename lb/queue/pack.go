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

// A packed queue is
//
//	offset  size  header
//	0       4     magic, "WGQ6"
//	4       1     number of lists
//	5       1     number of classes
//	6       2     number of flows
//	8       4     number of tickets that wait
//	12      4     number of ended tickets
//	16      4     number of the next ticket, see record
//	20      1     1 for strict order
//	21      1     1 while the clock of the pace runs
//	22      2     how many others a ticket may pass, at most
//	24      4     up to when the clock of the pace was read, in ms
//	28      8     virtual time, float64
//	36      40    the pace: places, time, grants, gap, longest; float64
//
// then the lists, each of key 4, number of endpoints 2, and for each row 2, cap 4 and cap in tokens 6; of endpoints
// with budgets the number is increased by 0x8000, then comes the age bonus 8, and behind the caps of each its weight 8,
// tokens 8 and requests 8 a minute, all float64; then the classes, each of id 2, rank 1, reserved 2, weight 8, served
// 8, virtual 8, due 8, odd 8, share 16, came 4; then the flows, each of class 1, tenant 8, served 8, share 16, came 4,
// number of tickets 4; then the ended tickets, each of owner 8, id 8, Status 1, row 2, tokens 4; and then those that
// wait, of the first flow, of the second and so on: see record. A share is of chances 8 and granted 8.
//
// What is counted or looked for at each step is in front, so that a step reads few tickets, however many wait.
const (
	magic      = 0x36514757
	headerSize = 76
	entrySize  = 12
	limitsSize = 24
	budgetFlag = 0x8000 // in the number of a list's endpoints, of which a table has fewer
	endedSize  = 23
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
	if err := q.Read(b); err != nil {
		return nil, err
	}
	return q, nil
}

// Read makes q the packed queue b, as Decode does, in the memory of q.
func (q *Queue) Read(b []byte) error {
	*q = Queue{
		lists: q.lists[:0], ended: q.ended[:0],
		line: line{classes: q.line.classes[:0], flows: q.line.flows[:0], spare: q.line.spare},
	}
	if len(b) == 0 {
		return nil
	}
	in := wire.NewReader(b)
	if in.Uint32() != magic {
		return ErrDamaged
	}
	lists, classes, flows := int(in.Byte()), int(in.Byte()), int(in.Uint16())
	waiting, ended := int(in.Uint32()), int(in.Uint32())
	l, p := &q.line, &q.pace
	l.number = in.Uint32()
	l.strict = in.Byte() == 1
	p.running = in.Byte() == 1
	l.skip = int(in.Uint16())
	p.now, l.virtual = in.Uint32(), in.Float64()
	readFloats(&in, &p.places, &p.time, &p.grants, &p.gap, &p.longest)
	for range lists {
		q.lists = append(q.lists, readList(&in))
	}
	for range classes {
		c := class{id: in.Uint16(), rank: in.Byte(), reserved: in.Uint16()}
		readFloats(&in, &c.weight, &c.served, &c.virtual, &c.due, &c.odd, &c.share.chances, &c.share.granted)
		c.came = in.Uint32()
		l.classes = append(l.classes, c)
	}
	for range flows {
		f := flow{class: in.Byte(), tenant: in.Uint64()}
		readFloats(&in, &f.served, &f.share.chances, &f.share.granted)
		f.came, f.waiting = in.Uint32(), int(in.Uint32())
		l.flows = append(l.flows, f)
	}
	for range min(ended, in.Len()/endedSize+1) {
		q.ended = append(q.ended, End{
			Owner: in.Uint64(), ID: lb.LeaseID(in.Uint64()), Status: Status(in.Byte()),
			Row: int(in.Uint16()), Tokens: int64(in.Uint32()),
		})
	}
	l.tickets = in.Rest()
	if !in.OK() || len(l.tickets) != waiting*recordSize || len(q.ended) != ended || !q.countWaiting() {
		return ErrDamaged
	}
	return nil
}

// readFloats reads numbers, and appendFloats appends them. They keep the module small.
func readFloats(in *wire.Reader[[]byte], to ...*float64) {
	for _, f := range to {
		*f = in.Float64()
	}
}

func appendFloats(w wire.Writer, floats ...float64) wire.Writer {
	for _, f := range floats {
		w = w.Float64(f)
	}
	return w
}

// readList reads a list.
func readList(in *wire.Reader[[]byte]) list {
	l := list{key: in.Uint32()}
	n, size := int(in.Uint16()), entrySize
	if l.budgets = n&budgetFlag != 0; l.budgets {
		n, size, l.bonus = n&^budgetFlag, entrySize+limitsSize, in.Float64()
	}
	entries := wire.NewReader(in.Take(n * size))
	for entries.Len() > 0 {
		e := Entry{Row: int(entries.Uint16()), Cap: int64(entries.Uint32()), TokenCap: int64(entries.Uint(6))}
		if l.budgets {
			readFloats(&entries, &e.Limits.Weight, &e.Limits.Tokens, &e.Limits.Requests)
		}
		l.entries = append(l.entries, e)
	}
	return l
}

// append appends the packed list.
func (l *list) append(w wire.Writer) wire.Writer {
	w = w.Uint32(l.key)
	if l.budgets {
		w = w.Uint16(uint16(len(l.entries) | budgetFlag)).Float64(l.bonus)
	} else {
		w = w.Uint16(uint16(len(l.entries)))
	}
	for i := range l.entries {
		e := &l.entries[i]
		w = w.Uint16(uint16(e.Row)).Uint32(uint32(min(e.Cap, math.MaxUint32))).
			Uint(6, uint64(min(e.TokenCap, maxTokenCap)))
		if l.budgets {
			w = appendFloats(w, e.Limits.Weight, e.Limits.Tokens, e.Limits.Requests)
		}
	}
	return w
}

// countWaiting sets what is not packed. It reports whether all numbers are within their bounds.
func (q *Queue) countWaiting() bool {
	l := &q.line
	for i := range l.flows {
		f := &l.flows[i]
		if int(f.class) >= len(l.classes) || f.waiting > len(l.tickets)/recordSize-l.waiting {
			return false
		}
		f.first = l.waiting
		l.waiting += f.waiting
		l.classes[f.class].waiting += f.waiting
		for i := range f.waiting {
			f.tokens += l.at(f.first + i).work()
		}
		l.classes[f.class].tokens += f.tokens
	}
	for i := range q.ended {
		if s := q.ended[i].Status; s != Granted && s != Evicted {
			return false
		}
	}
	for at := 0; at < len(l.tickets); at += recordSize {
		r := record(l.tickets[at:])
		if r.list() >= len(q.lists) {
			return false
		}
		q.lists[r.list()].waiting++
		if r.wants() != NoRow {
			l.patient++
		}
	}
	return l.waiting*recordSize == len(l.tickets)
}

// Append appends the packed queue to b. A queue without tickets is dropped some time after its last grant: then
// nothing is appended.
func (q *Queue) Append(b []byte, now time.Duration) []byte {
	l, p := &q.line, &q.pace
	if q.Size() == 0 {
		if p.time+p.grants == 0 || int32(millis(now)-p.now) > int32(millis(paceMemory)) {
			return b
		}
		q.lists, l.classes, l.flows, l.virtual = nil, nil, nil, 0
	}
	strict, running := uint8(0), uint8(0)
	if l.strict {
		strict = 1
	}
	if p.running {
		running = 1
	}
	w := wire.Writer(b).Uint32(magic).Byte(uint8(len(q.lists))).Byte(uint8(len(l.classes)))
	w = w.Uint16(uint16(len(l.flows))).Uint32(uint32(l.waiting)).Uint32(uint32(len(q.ended))).Uint32(l.number)
	w = w.Byte(strict).Byte(running).Uint16(uint16(l.skip))
	w = w.Uint32(p.now).Float64(l.virtual)
	w = appendFloats(w, p.places, p.time, p.grants, p.gap, p.longest)
	for i := range q.lists {
		w = q.lists[i].append(w)
	}
	for i := range l.classes {
		c := &l.classes[i]
		w = w.Uint16(c.id).Byte(c.rank).Uint16(c.reserved)
		w = appendFloats(w, c.weight, c.served, c.virtual, c.due, c.odd, c.share.chances, c.share.granted)
		w = w.Uint32(c.came)
	}
	for i := range l.flows {
		f := &l.flows[i]
		w = appendFloats(w.Byte(f.class).Uint64(f.tenant), f.served, f.share.chances, f.share.granted)
		w = w.Uint32(f.came).Uint32(uint32(f.waiting))
	}
	for i := range q.ended {
		e := &q.ended[i]
		w = w.Uint64(e.Owner).Uint64(uint64(e.ID)).Byte(uint8(e.Status)).Uint16(uint16(e.Row)).Uint32(uint32(e.Tokens))
	}
	return append(w, l.tickets...)
}
