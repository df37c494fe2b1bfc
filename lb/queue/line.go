package queue

import (
	"slices"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

// line is the requests that wait, by class, tenant and program.
type line struct {
	classes []class
	flows   []flow
	tickets []byte // records, by flow, and in each in the order in which they came
	waiting int    // how many these are
	patient int    // how many of them want a certain row
	number  uint32 // of the next ticket

	strict  bool    // as the latest request wants it
	skip    int     // the most others that one of those that wait may pass, or one that has waited before
	virtual float64 // virtual time of the class that was served last

	spare []byte // memory for tickets when there are more than in the packed queue
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

// flow is the requests of one program of a tenant in one class: of the tenant, if it has none.
type flow struct {
	class   uint8   // number of the class
	tenant  uint64  // and its program: see lb.TurnOf
	served  float64 // virtual time: tokens served, as many times as its tenant has programs
	share   share
	came    uint32 // when the latest ticket of it came, in ms
	waiting int
	first   int     // number of its first ticket; not packed
	tokens  float64 // of its tickets; not packed
}

// tenantKey is the same for the programs of one tenant in one class.
type tenantKey struct {
	class  uint8
	tenant uint32
}

func (f *flow) key() tenantKey { return tenantKey{f.class, uint32(f.tenant)} }

// takesTurns reports whether the flow waits, or was served more than one that begins to wait now.
func (l *line) takesTurns(f *flow) bool {
	return f.waiting > 0 || f.served > l.classes[f.class].virtual
}

// maxPrograms is how many programs of a tenant have turns of their own in a class: each costs every step a little.
const maxPrograms = 128

// nameOf returns the name of the request's flow in the class with the number: that of another program of its tenant
// for a new one, if there are too many.
func (l *line) nameOf(number int, w *lb.Wait) uint64 {
	var names []uint64
	for i := range l.flows {
		switch f := &l.flows[i]; {
		case int(f.class) != number || uint32(f.tenant) != uint32(w.Tenant):
		case f.tenant == w.Tenant:
			return w.Tenant
		default:
			names = append(names, f.tenant)
		}
	}
	if len(names) < maxPrograms {
		return w.Tenant
	}
	return names[(w.Tenant>>32)%uint64(len(names))]
}

// startOf returns where a new program of the tenant begins at least: where the others of its tenant are that take
// turns, on average. So nobody gains by a new name for each request.
func (l *line) startOf(of tenantKey) float64 {
	sum, n := 0.0, 0.0
	for i := range l.flows {
		if o := &l.flows[i]; o.key() == of && l.takesTurns(o) {
			sum, n = sum+o.served, n+1
		}
	}
	return sum / max(n, 1)
}

// programs returns how many programs of the flow's tenant take turns, itself included.
func (l *line) programs(f *flow) (n float64) {
	for i := range l.flows {
		if o := &l.flows[i]; o == f || o.key() == f.key() && l.takesTurns(o) {
			n++
		}
	}
	return n
}

// end returns the number behind that of the flow's last ticket.
func (f *flow) end() int { return f.first + f.waiting }

// at returns the i-th ticket.
func (l *line) at(i int) record { return l.tickets[i*recordSize:][:recordSize] }

// find returns the number of a ticket, -1 for none.
func (l *line) find(owner uint64, id lb.LeaseID) int {
	for i := range l.waiting {
		if r := l.at(i); r.id() == id && r.owner() == owner {
			return i
		}
	}
	return -1
}

// findClass returns the number of the class with the id, -1 if there is none.
func (l *line) findClass(id uint16) int {
	return slices.IndexFunc(l.classes, func(c class) bool { return c.id == id })
}

// findFlow returns the flow of a tenant in the class with the number, nil if there is none.
func (l *line) findFlow(number int, tenant uint64) *flow {
	for i := range l.flows {
		if f := &l.flows[i]; int(f.class) == number && f.tenant == tenant {
			return f
		}
	}
	return nil
}

// flowAt returns the flow of the i-th ticket.
func (l *line) flowAt(i int) *flow {
	f := slices.IndexFunc(l.flows, func(f flow) bool { return i < f.end() })
	return &l.flows[f]
}

// add adds a ticket behind those that came before it.
func (l *line) add(t *Ticket) {
	if l.waiting == 0 {
		l.skip = 0
	}
	l.strict = t.Wait.Strict
	r, f := newRecord(t, l.number), l.flowOf(t.Wait)
	l.number++
	l.skip = max(l.skip, r.skip())
	at := f.end()
	for at > f.first && r.before(l.at(at-1)) {
		at--
	}
	if len(l.tickets)+recordSize > cap(l.tickets) {
		l.spare = append(slices.Grow(l.spare[:0], len(l.tickets)+spareTickets*recordSize), l.tickets...)
		l.tickets = l.spare
	}
	l.tickets = slices.Insert(l.tickets, at*recordSize, r...)
	noteArrival(&f.came, r.since())
	noteArrival(&l.classes[f.class].came, r.since())
	l.count(f, 1, r)
	if t.Wants != NoRow {
		l.patient++
	}
}

// spareTickets is for how many more tickets memory is taken at a time.
const spareTickets = 64

// removeAt takes the i-th ticket out. Those on the shorter side of it are moved.
func (l *line) removeAt(i int) {
	r := l.at(i)
	l.count(l.flowAt(i), -1, r)
	if r.wants() != NoRow {
		l.patient--
	}
	at, t := i*recordSize, l.tickets
	if at < len(t)/2 {
		copy(t[recordSize:], t[:at])
		l.tickets = t[recordSize:]
	} else {
		l.tickets = append(t[:at], t[at+recordSize:]...)
	}
}

// count adds a ticket to the counts of a flow, n is 1, or takes it out of them, n is -1.
func (l *line) count(f *flow, n int, r record) {
	c, tokens := &l.classes[f.class], float64(n)*r.work()
	l.waiting += n
	f.waiting, f.tokens = f.waiting+n, f.tokens+tokens
	c.waiting, c.tokens = c.waiting+n, c.tokens+tokens
	l.setFirsts()
}

// setFirsts sets where the tickets of each flow begin.
func (l *line) setFirsts() {
	first := 0
	for i := range l.flows {
		l.flows[i].first = first
		first += l.flows[i].waiting
	}
}

// classOf returns the number of the class, with its latest settings.
func (l *line) classOf(w *lb.Wait) int {
	i := l.findClass(w.Class.ID)
	if i < 0 && len(l.classes) == maxClasses {
		i = 0
	} else if i < 0 {
		i = len(l.classes)
		l.classes = append(l.classes, class{id: w.Class.ID, came: millis(w.Since)})
	}
	c := &l.classes[i]
	c.rank, c.weight, c.reserved = w.Class.Rank, w.Class.Weight, uint16(min(w.Class.Reserved, 1<<16-1))
	if c.waiting == 0 {
		c.served, c.due = max(c.served, l.virtual), 0
	}
	return i
}

// flowOf returns the request's flow.
func (l *line) flowOf(w *lb.Wait) *flow {
	class := l.classOf(w)
	name := l.nameOf(class, w)
	is := func(f flow) bool { return f.tenant == name && int(f.class) == class }
	i := slices.IndexFunc(l.flows, is)
	if i < 0 || l.flows[i].waiting == 0 {
		l.forgetFlows(is)
		i = slices.IndexFunc(l.flows, is)
	}
	if i < 0 && len(l.flows) >= maxFlows {
		i = slices.IndexFunc(l.flows, func(f flow) bool { return int(f.class) == class })
	}
	if i < 0 {
		i = len(l.flows)
		f := flow{class: uint8(class), tenant: name, came: millis(w.Since), first: l.waiting}
		f.served = l.startOf(f.key())
		l.flows = append(l.flows, f)
	}
	f := &l.flows[i]
	if f.waiting == 0 {
		f.served = max(f.served, l.classes[class].virtual)
	}
	return f
}

// MaxIdle is how many flows without tickets are remembered: each costs every step a little.
const MaxIdle = 64

// forgetFlows removes the flows without tickets that are like new ones, and if there are too many others, the half of
// these that was served least beyond what a new one begins with; but not the one that is about to get a ticket.
func (l *line) forgetFlows(is func(flow) bool) {
	if len(l.flows) < MaxIdle {
		return
	}
	beyond := func(f *flow) float64 { return f.served - l.classes[f.class].virtual }
	var idle []float64
	for i := range l.flows {
		if f := &l.flows[i]; f.waiting == 0 && beyond(f) > 0 && !is(*f) {
			idle = append(idle, beyond(f))
		}
	}
	most := 0.0
	if len(idle) > MaxIdle {
		order.Up(idle)
		most = idle[len(idle)/2]
	}
	l.flows = slices.DeleteFunc(l.flows, func(f flow) bool { return f.waiting == 0 && beyond(&f) <= most && !is(f) })
}
