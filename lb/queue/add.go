package queue

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// List returns the number of the list of endpoints with the key, whose endpoints and caps are the given ones from now
// on. It returns false if there are too many lists.
func (q *Queue) List(key uint32, entries []Entry) (number int, ok bool) {
	for i := range q.lists {
		if q.lists[i].key == key {
			q.lists[i].entries, q.lists[i].budgets = entries, false
			return i, true
		}
	}
	if len(q.lists) >= pruneLists {
		q.pruneLists()
	}
	if len(q.lists) >= maxLists {
		return 0, false
	}
	q.lists = append(q.lists, list{key: key, entries: entries})
	return len(q.lists) - 1, true
}

// pruneLists is from how many lists on those that are not needed any more are removed.
const pruneLists = 8

// pruneLists removes the lists that no ticket has.
func (q *Queue) pruneLists() {
	numbers, kept := make([]int, len(q.lists)), q.lists[:0]
	for i, l := range q.lists {
		numbers[i] = len(kept)
		if l.waiting > 0 {
			kept = append(kept, l)
		}
	}
	q.lists = kept
	for i := range q.waiting {
		r := q.at(i)
		r.setList(numbers[r.list()])
	}
}

// HasOpen reports whether an endpoint of the list is below its caps, or can take so many tokens if it has a budget.
func (q *Queue) HasOpen(now time.Duration, number int, tokens int64, loads Loads) bool {
	if l := &q.lists[number]; l.budgets {
		targets, _ := loads.Targets(now, l.entries, l.bonus)
		return budget.AnyTakes(targets, float64(tokens))
	}
	return slices.ContainsFunc(q.lists[number].entries, func(e Entry) bool { return e.open(loads) })
}

func (e *Entry) open(loads Loads) bool {
	l := loads.Load(e.Row)
	return (e.Cap == 0 || l.Requests < e.Cap) && (e.TokenCap == 0 || l.Tokens < e.TokenCap)
}

// used returns the part of the endpoint's cap that is in use, the larger one of two.
func (e *Entry) used(loads Loads) float64 {
	l, limit := loads.Load(e.Row), float64(e.Cap)
	if e.Cap == 0 {
		limit = math.MaxUint32
	}
	part := float64(l.Requests) / limit
	if e.TokenCap > 0 {
		part = max(part, float64(l.Tokens)/float64(e.TokenCap))
	}
	return part
}

// Admit decides whether one more request may wait: then the error is nil, and in a full queue another one was evicted
// for it. expected is how long the request is likely to wait, 0 if that is not known.
func (q *Queue) Admit(now time.Duration, t *Ticket) (expected time.Duration, err error) {
	w := t.Wait
	likely, hopeless := q.outlook(now, t)
	expected = time.Duration(likely * float64(time.Millisecond))
	switch {
	case hopeless:
		return expected, lb.ErrHopeless
	case w.TenantLength > 0 && q.waitingInClass(w) >= w.TenantLength:
		return expected, lb.ErrQueueFull
	case q.waiting < w.Length-q.reservedForOthers(w):
		return expected, nil
	case q.evictFor(w):
		return expected, nil
	}
	return expected, lb.ErrQueueFull
}

// Add adds a ticket behind those that came before it.
func (q *Queue) Add(now time.Duration, t *Ticket) {
	q.pace.arrived(millis(now), q.waiting == 0, t)
	if q.waiting == 0 {
		q.skip = 0
	}
	q.strict = t.Wait.Strict
	r, f := newRecord(t, q.number), q.flowOf(t.Wait)
	q.number++
	q.skip = max(q.skip, r.skip())
	at := f.end()
	for at > f.first && r.before(q.at(at-1)) {
		at--
	}
	if len(q.tickets)+recordSize > cap(q.tickets) {
		q.spare = append(slices.Grow(q.spare[:0], len(q.tickets)+spareTickets*recordSize), q.tickets...)
		q.tickets = q.spare
	}
	q.tickets = slices.Insert(q.tickets, at*recordSize, r...)
	noteArrival(&f.came, r.since())
	noteArrival(&q.classes[f.class].came, r.since())
	q.count(f, 1, r)
	q.lists[t.List].waiting++
	if t.Wants != NoRow {
		q.patient++
	}
}

// spareTickets is for how many more tickets memory is taken at a time.
const spareTickets = 64

// classOf returns the number of the class, with its latest settings.
func (q *Queue) classOf(w *lb.Wait) int {
	i := q.findClass(w.Class.ID)
	if i < 0 && len(q.classes) == maxClasses {
		i = 0
	} else if i < 0 {
		i = len(q.classes)
		q.classes = append(q.classes, class{id: w.Class.ID, came: millis(w.Since)})
	}
	c := &q.classes[i]
	c.rank, c.weight, c.reserved = w.Class.Rank, w.Class.Weight, uint16(min(w.Class.Reserved, 1<<16-1))
	if c.waiting == 0 {
		c.served, c.due = max(c.served, q.virtual), 0
	}
	return i
}

// flowOf returns the request's flow.
func (q *Queue) flowOf(w *lb.Wait) *flow {
	class := q.classOf(w)
	is := func(f flow) bool { return f.tenant == w.Tenant && int(f.class) == class }
	i := slices.IndexFunc(q.flows, is)
	if i < 0 || q.flows[i].waiting == 0 {
		q.forgetFlows(is)
		i = slices.IndexFunc(q.flows, is)
	}
	if i < 0 && len(q.flows) >= maxFlows {
		i = slices.IndexFunc(q.flows, func(f flow) bool { return int(f.class) == class })
	}
	if i < 0 {
		i = len(q.flows)
		q.flows = append(q.flows, flow{class: uint8(class), tenant: w.Tenant, came: millis(w.Since), first: q.waiting})
	}
	f := &q.flows[i]
	if f.waiting == 0 {
		f.served = max(f.served, q.classes[class].virtual)
	}
	return f
}

// MaxIdle is how many flows without tickets are remembered: each costs every step a little.
const MaxIdle = 64

// forgetFlows removes the flows without tickets that are like new ones, and if there are too many others, the half of
// these that was served least beyond what a new one begins with; but not the one that is about to get a ticket.
func (q *Queue) forgetFlows(is func(flow) bool) {
	if len(q.flows) < MaxIdle {
		return
	}
	beyond := func(f *flow) float64 { return f.served - q.classes[f.class].virtual }
	var idle []float64
	for i := range q.flows {
		if f := &q.flows[i]; f.waiting == 0 && beyond(f) > 0 && !is(*f) {
			idle = append(idle, beyond(f))
		}
	}
	most := 0.0
	if len(idle) > MaxIdle {
		order.Up(idle)
		most = idle[len(idle)/2]
	}
	q.flows = slices.DeleteFunc(q.flows, func(f flow) bool { return f.waiting == 0 && beyond(&f) <= most && !is(f) })
}
