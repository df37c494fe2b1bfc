package queue

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/order"
)

// maxPassed is by how many times its Skip a ticket may be passed.
const maxPassed = 3

// Dispatch grants the open endpoints to those whose turn it is, and counts them in loads. It appends the grants to
// grants. Of several open endpoints, the one with the smallest part of its cap in use is given out first, by the caps
// of those that wait.
func (q *Queue) Dispatch(now time.Duration, loads Loads, grants []Grant) []Grant {
	if q.line.waiting == 0 {
		return grants
	}
	t := turn{q: q, now: millis(now), loads: loads}
	q.pace.read(t.now)
	if q.hasBudgets() {
		grants = t.dispatchBudgets(now, grants)
	}
	for q.line.waiting > 0 {
		row := t.emptiest()
		if row == NoRow {
			break
		}
		i := t.next(row)
		if i < 0 {
			t.exhaust(row)
			continue
		}
		if t.failed > 0 { // some may have left a row to another that is full now
			clear(t.exhausted)
			t.cold, t.failed = nil, 0
		}
		grants = append(grants, t.grant(i, row))
	}
	q.pace.running = t.failed == 0 && q.isAwaited()
	return grants
}

// grant grants the row to the i-th ticket, which next has returned, and advances the virtual times: in an aged turn
// that of the tenant alone.
func (t *turn) grant(i, row int) Grant {
	q := t.q
	if q.pace.running {
		q.pace.granted()
		q.line.noteShares(q.line.flowAt(i))
	}
	r, f := q.line.at(i), q.line.flowAt(i)
	e := End{Owner: r.owner(), ID: r.id(), Status: Granted, Row: row, Tokens: max(0, r.tokens()-r.saved(row))}
	c, tokens := &q.line.classes[f.class], float64(max(e.Tokens, 1))
	if !t.outOfTurn {
		q.line.owe(t.aged, int(f.class), tokens)
		q.line.virtual = c.served
		c.served += tokens / c.weight
	}
	c.paid(tokens, t.outOfTurn)
	c.virtual = t.start
	f.served += tokens * q.line.programs(f)
	q.removeAt(i)
	q.ended = append(q.ended, e)
	t.loads.Add(row, e.Tokens)
	return Grant{e.Owner, e.ID}
}

// turn is the state of one Dispatch.
type turn struct {
	q         *Queue
	now       uint32 // in ms
	loads     Loads
	exhausted []bool   // open rows that nobody can be granted now
	failed    int      // how many of them were tried
	cold      [][]bool // of those that are no row of warm: the lists in which they are open
	warm      []bool   // rows that have a prompt of somebody who waits, nil while that is not known
	lists     []bool   // those in which the row is open: scratch of next
	classes   []int    // those that wait, in their order: likewise
	aged      []bool   // by class: it is aged
	outOfTurn bool     // the ticket that next has returned has its turn because its class is aged
	start     float64  // virtual time of the flow whose turn it was
	peers     []*flow  // of the same tenant: scratch of next
	front     []int    // tickets in front of others: likewise
	budgets   *budgetTurn
}

// emptiest returns the open row with the smallest part of its cap in use, NoRow if there is none.
func (t *turn) emptiest() int {
	best, least := NoRow, math.Inf(1)
	for i := range t.q.lists {
		if t.q.lists[i].waiting == 0 || t.q.lists[i].budgets {
			continue
		}
		for _, e := range t.q.lists[i].entries {
			if !e.open(t.loads) || t.isExhausted(e.Row) {
				continue
			}
			if used := e.used(t.loads); used < least {
				best, least = e.Row, used
			}
		}
	}
	return best
}

// exhaust notes that nobody can be granted the row, which was the argument of next. From the second row on it notes
// that for all rows of its kind: that have no prompt of somebody who waits, and are open in the same lists.
func (t *turn) exhaust(row int) {
	t.exhausted = set(t.exhausted, row)
	if t.failed++; t.failed == 1 {
		return
	}
	if t.warm == nil {
		t.findWarm()
	}
	if !has(t.warm, row) {
		t.cold = append(t.cold, slices.Clone(t.lists))
	}
}

// isExhausted reports whether nobody can be granted the row, as far as that is known.
func (t *turn) isExhausted(row int) bool {
	if has(t.exhausted, row) {
		return true
	}
	if len(t.cold) == 0 || has(t.warm, row) {
		return false
	}
	t.openLists(row)
	if !slices.ContainsFunc(t.cold, func(lists []bool) bool { return slices.Equal(lists, t.lists) }) {
		return false
	}
	t.exhausted = set(t.exhausted, row)
	return true
}

// findWarm finds the rows that have a prompt of somebody who waits.
func (t *turn) findWarm() {
	t.warm = []bool{}
	for i := range t.q.line.waiting {
		r := t.q.line.at(i)
		for at := warmAt; at < recordSize && r.u16(at) != NoRow; at += warmSize {
			t.warm = set(t.warm, int(r.u16(at)))
		}
	}
}

// set sets the i-th of the values, and has reports whether it is set.
func set(values []bool, i int) []bool {
	for len(values) <= i {
		values = append(values, false)
	}
	values[i] = true
	return values
}

func has(values []bool, i int) bool { return i < len(values) && values[i] }

// openLists sets the lists in which the row is open.
func (t *turn) openLists(row int) {
	t.lists = t.lists[:0]
	for i := range t.q.lists {
		t.lists = append(t.lists, t.openIn(i, row))
	}
}

// openIn returns whether the row is open in the list.
func (t *turn) openIn(list, row int) bool {
	if t.q.lists[list].budgets {
		return false
	}
	for _, e := range t.q.lists[list].entries {
		if e.Row == row {
			return e.open(t.loads)
		}
	}
	return false
}

// next returns the number of the ticket whose turn it is at the row, -1 for none.
func (t *turn) next(row int) int {
	t.openLists(row)
	t.aged = t.q.line.findAged(t.now, t.aged)
	t.classes = t.q.line.owed(t.aged, t.classes)
	f, first := t.nextIn(t.classes, row)
	usual, i := t.nextIn(t.order(), row)
	if t.outOfTurn = f != nil && f.class != usual.class; !t.outOfTurn {
		f, first = usual, i
	}
	if f == nil {
		return -1
	}
	t.start = f.served
	return t.nextOf(f, first, row)
}

// nextIn returns the flow whose turn it is at the row, of the first of the classes that has one, and its first ticket
// that may be granted it.
func (t *turn) nextIn(classes []int, row int) (f *flow, first int) {
	for _, class := range classes {
		if f, first = t.flowOf(class, row); f != nil {
			return f, first
		}
	}
	return nil, -1
}

// order returns the classes that wait: with strict order the highest first, else the one that was served least.
func (t *turn) order() []int {
	l := &t.q.line
	t.classes = t.classes[:0]
	for i := range l.classes {
		if l.classes[i].waiting > 0 {
			t.classes = append(t.classes, i)
		}
	}
	order.By(t.classes, func(i, j *int) bool {
		a, b := &l.classes[*i], &l.classes[*j]
		if a.served != b.served && !l.strict {
			return a.served < b.served
		}
		return a.rank < b.rank || a.rank == b.rank && *i < *j
	})
	return t.classes
}

// flowOf returns the flow of the class that was served least, among those that have somebody for the row, and its first
// ticket that may be granted it. Of several it is the one whose ticket came first.
func (t *turn) flowOf(class, row int) (best *flow, first int) {
	l := &t.q.line
	for i := range l.flows {
		f := &l.flows[i]
		if int(f.class) != class || f.waiting == 0 || best != nil && f.served > best.served {
			continue
		}
		j := t.firstOf(f, row)
		if j >= 0 && (best == nil || f.served < best.served || l.at(j).before(l.at(first))) {
			best, first = f, j
		}
	}
	return best, first
}

// firstOf returns the first ticket of the flow that may be granted the row, -1 for none.
func (t *turn) firstOf(f *flow, row int) int {
	for i := f.first; i < f.end(); i++ {
		if t.eligible(t.q.line.at(i), row) {
			return i
		}
	}
	return -1
}

// nextOf returns the ticket whose turn it is: the first one of the flow, unless another one of the tenant is worth more
// at the endpoint and may pass those before it. One of another program may only if that is ahead of the flow by no more
// than what the request takes there: so programs differ by a request or two, however long one has its prompt cached.
func (t *turn) nextOf(f *flow, first, row int) int {
	l := &t.q.line
	programs, best, most, passed := l.programs(f), -1, int64(0), 0
	t.front = t.front[:0]
	look := func(p *flow, i int) (goOn bool) {
		r := l.at(i)
		if !t.eligible(r, row) {
			return true
		}
		mayPass := len(t.front) <= r.skip() && (p.served-f.served)/programs <= float64(max(1, r.tokens()-r.saved(row)))
		if w := worth(r, row); best < 0 || w > most && mayPass {
			best, most, passed = i, w, len(t.front)
		}
		t.front = append(t.front, i)
		return r.passed() < maxPassed*r.skip() && len(t.front) <= l.skip // else nobody passes this one
	}
	for _, p := range t.peersOf(f) {
		from, goOn := p.first, true
		if p == f {
			from = first
		}
		for i := from; i < p.end() && goOn; i++ {
			goOn = look(p, i)
		}
		if !goOn {
			break
		}
	}
	for _, i := range t.front[:passed] {
		l.at(i).countPassed()
	}
	return best
}

// peersOf returns the flow, and behind it the others of its tenant that wait: those that were served least in front.
func (t *turn) peersOf(f *flow) []*flow {
	l := &t.q.line
	t.peers = append(t.peers[:0], f)
	for i := range l.flows {
		if p := &l.flows[i]; p != f && p.waiting > 0 && p.key() == f.key() {
			t.peers = append(t.peers, p)
		}
	}
	order.By(t.peers[1:], func(a, b **flow) bool {
		return (*a).served < (*b).served || (*a).served == (*b).served && (*a).first < (*b).first
	})
	return t.peers
}

// worth returns what it is worth to serve the ticket at the row rather than elsewhere, in tokens: what is cached there
// counts twice, because it is not only saved but also stays in use; what is cached elsewhere would be lost.
func worth(r record, row int) int64 { return 2*r.saved(row) - r.bestSaved(row) }

// eligible reports whether a ticket may be granted the row, which is open.
func (t *turn) eligible(r record, row int) bool {
	if t.loads.IsSilent(r.owner()) {
		return false
	}
	if t.budgets != nil {
		return t.budgets.takes(r)
	}
	if !t.lists[r.list()] {
		return false
	}
	waited := r.waited(t.now)
	if waited > r.max() {
		return false // its owner is about to end its wait
	}
	saved := r.saved(row)
	if wants := r.wants(); wants != NoRow && wants != row && r.isPatient(waited, r.saved(wants), saved) {
		return false
	}
	return !t.openElsewhere(r, row, saved)
}

// openElsewhere reports whether an endpoint that has more of the prompt is open as well.
func (t *turn) openElsewhere(r record, row int, saved int64) bool {
	for at := warmAt; at < recordSize; at += warmSize {
		other := int(r.u16(at))
		if other == NoRow {
			return false
		}
		if other != row && r.saved(other) > saved && t.openIn(r.list(), other) {
			return true
		}
	}
	return false
}
