package queue

import (
	"math"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// maxPassed is by how many times its Skip a ticket may be passed.
const maxPassed = 3

// Loads are what is in flight at the endpoints, over all owners.
type Loads interface {
	Load(row int) lb.Load
	// Add counts one more request.
	Add(row int, tokens int64)
}

// Grant is a request that was granted an endpoint.
type Grant struct {
	Owner uint64
	ID    lb.LeaseID
}

// Dispatch grants the open endpoints to those whose turn it is, and counts them in loads. It appends the grants to
// grants. Of several open endpoints, the one with the smallest part of its cap in use is given out first.
func (q *Queue) Dispatch(now time.Duration, loads Loads, grants []Grant) []Grant {
	if q.waiting == 0 {
		return grants
	}
	t := turn{q: q, now: millis(now), loads: loads}
	for q.waiting > 0 {
		row := t.emptiest()
		if row == NoRow {
			break
		}
		i := t.next(row)
		if i < 0 {
			t.exhausted = append(t.exhausted, row)
			continue
		}
		t.exhausted = t.exhausted[:0] // some may have left a row to another that is full now
		r := q.at(i)
		q.serve(r, row)
		q.pace.granted(t.now)
		loads.Add(row, r.rowTokens())
		grants = append(grants, Grant{r.owner(), r.id()})
	}
	return grants
}

// serve grants the row to a ticket, and advances the virtual times.
func (q *Queue) serve(r record, row int) {
	q.countTicket(r, -1)
	r.grant(row)
	f := &q.flows[r.flow()]
	c := &q.classes[f.class]
	tokens := float64(max(r.rowTokens(), 1))
	q.virtual, c.virtual = c.served, f.served
	c.served += tokens / c.weight
	f.served += tokens
}

// turn is the state of one Dispatch.
type turn struct {
	q         *Queue
	now       uint32 // in ms
	loads     Loads
	exhausted []int  // open rows that nobody can be granted now
	lists     []bool // those in which the row is open: scratch of next
}

// emptiest returns the open row with the smallest part of its cap in use, NoRow if there is none.
func (t *turn) emptiest() int {
	best, least := NoRow, math.Inf(1)
	for i := range t.q.lists {
		for _, e := range t.q.lists[i].entries {
			if !e.open(t.loads) || slices.Contains(t.exhausted, e.Row) {
				continue
			}
			if used := e.used(t.loads); used < least {
				best, least = e.Row, used
			}
		}
	}
	return best
}

// openIn returns whether the row is open in the list.
func (t *turn) openIn(list, row int) bool {
	for _, e := range t.q.lists[list].entries {
		if e.Row == row {
			return e.open(t.loads)
		}
	}
	return false
}

// next returns the number of the ticket whose turn it is at the row, -1 for none.
func (t *turn) next(row int) int {
	q := t.q
	t.lists = t.lists[:0]
	for i := range q.lists {
		t.lists = append(t.lists, t.openIn(i, row))
	}
	class, least := -1, 0.0
	for i := range q.Size() {
		r := q.at(i)
		if !t.eligible(r, row) {
			continue
		}
		if aging := r.aging(); aging > 0 && r.waited(t.now) >= aging {
			return i
		}
		c := int(q.flows[r.flow()].class)
		if x := q.precedence(c); class < 0 || x < least || x == least && q.classes[c].rank < q.classes[class].rank {
			class, least = c, x
		}
	}
	if class < 0 {
		return -1
	}
	return t.nextOf(t.flowOf(class, row), row)
}

// precedence returns the number by which classes are ordered: the lowest goes next.
func (q *Queue) precedence(class int) float64 {
	if q.strict {
		return float64(q.classes[class].rank)
	}
	return q.classes[class].served
}

// flowOf returns the flow of the class that was served least, among those that have somebody for the row.
func (t *turn) flowOf(class, row int) int {
	q, best := t.q, -1
	for i := range q.Size() {
		r := q.at(i)
		f := r.flow()
		if int(q.flows[f].class) == class && f != best && (best < 0 || q.flows[f].served < q.flows[best].served) &&
			t.eligible(r, row) {
			best = f
		}
	}
	return best
}

// nextOf returns the ticket of the flow whose turn it is: the first one, unless another one is worth more at the
// endpoint and may pass those before it.
func (t *turn) nextOf(flow, row int) int {
	q := t.q
	best, most, position := -1, int64(0), 0
	for i := range q.Size() {
		r := q.at(i)
		if r.flow() != flow || !t.eligible(r, row) {
			continue
		}
		if w := worth(r, row); best < 0 || w > most && position <= r.skip() {
			best, most = i, w
		}
		position++
		if r.passed() >= maxPassed*r.skip() || position > MaxSkip {
			break // nobody passes this one
		}
	}
	for i := range best {
		if r := q.at(i); r.flow() == flow && t.eligible(r, row) {
			r.countPassed()
		}
	}
	return best
}

// worth returns what it is worth to serve the ticket at the row rather than elsewhere, in tokens: what is cached there
// counts twice, because it is not only saved but also stays in use; what is cached elsewhere would be lost.
func worth(r record, row int) int64 { return 2*r.saved(row) - r.bestSaved(row) }

// eligible reports whether a ticket may be granted the row, which is open.
func (t *turn) eligible(r record, row int) bool {
	if r.status() != Waiting || !t.lists[r.list()] {
		return false
	}
	waited := r.waited(t.now)
	if waited > r.max() {
		return false // its owner is about to end its wait
	}
	saved := r.saved(row)
	if wants := r.wants(); wants != NoRow && wants != row && waited < r.patience() && r.saved(wants) > saved {
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
