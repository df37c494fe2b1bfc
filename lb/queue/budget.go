package queue

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

// Where endpoints have budgets, which of them is open depends on the request. So the ticket is chosen first, by the
// same rules of turn as elsewhere, among those that some endpoint can take; then package budget chooses the endpoint.
//
// Small requests find enough in a bucket where large ones do not. So for the first tickets that no endpoint can take,
// in the order in which they came, tokens are set aside at the endpoint that can take each first: a number for each
// second that it has waited. Those that came later may only take what is beyond that.

// maxAhead is for how many tickets tokens are set aside: these are looked at for each grant.
const maxAhead = 8

// SetBudgets notes that the endpoints of the list have budgets, and the age bonus: see [lb.Budget].
func (q *Queue) SetBudgets(number int, bonus float64) {
	q.lists[number].budgets, q.lists[number].bonus = true, bonus
}

// hasBudgets reports whether somebody waits for endpoints with budgets.
func (q *Queue) hasBudgets() bool {
	for i := range q.lists {
		if q.lists[i].budgets && q.lists[i].waiting > 0 {
			return true
		}
	}
	return false
}

// Aside is what is set aside for a ticket at a row.
type Aside struct {
	Row    int
	Tokens float64
}

// Asides returns what is set aside for those that wait.
func (q *Queue) Asides(now time.Duration, loads Loads) []Aside {
	if q.line.waiting == 0 || !q.hasBudgets() {
		return nil
	}
	b := budgetTurn{turn: &turn{q: q, now: millis(now), loads: loads}, now: now}
	b.look()
	return b.asides
}

// budgetTurn is the state of a Dispatch to endpoints with budgets, up to the next grant.
type budgetTurn struct {
	*turn
	now     time.Duration
	targets [][]budget.Target // of each list with budgets
	last    []int             // of each list: the target that was served last
	room    []float64         // of each list: the largest request that a target takes
	ahead   []int             // the tickets that came first
	asides  []Aside           // for them, in their order
	before  []int             // for each of them, how many asides are for those before it
	less    []budget.Target   // reused by withAsides
}

// dispatchBudgets grants what endpoints with budgets can take.
func (t *turn) dispatchBudgets(now time.Duration, grants []Grant) []Grant {
	b := &budgetTurn{turn: t, now: now}
	t.budgets = b
	for t.q.line.waiting > 0 {
		b.look()
		i := t.next(NoRow)
		if i < 0 {
			break
		}
		r := t.q.line.at(i)
		l, targets, tokens := r.list(), b.targetsFor(r), float64(r.tokens())
		at := budget.Choose(targets, b.last[l], tokens)
		if at == budget.None {
			break // a damaged budget
		}
		entries := t.q.lists[l].entries
		t.loads.Charge(now, entries, targets, at, tokens)
		grants = append(grants, t.grant(i, entries[at].Row))
	}
	t.budgets = nil
	return grants
}

// look looks at all targets as they are now, and sets aside what the first tickets need.
func (b *budgetTurn) look() {
	q := b.q
	b.targets, b.last, b.room = b.targets[:0], b.last[:0], b.room[:0]
	for i := range q.lists {
		var targets []budget.Target
		last := -1
		if l := &q.lists[i]; l.budgets && l.waiting > 0 {
			targets, last = b.loads.Targets(b.now, l.entries, l.bonus)
		}
		b.targets, b.last = append(b.targets, append([]budget.Target(nil), targets...)), append(b.last, last)
	}
	b.ahead, b.asides, b.before = b.firstTickets(), b.asides[:0], b.before[:0]
	for _, i := range b.ahead {
		b.before = append(b.before, len(b.asides))
		b.setAside(q.line.at(i))
	}
	for i := range q.lists {
		b.room = append(b.room, roomOf(b.targets[i]))
	}
}

// firstTickets returns the tickets for endpoints with budgets that came first.
func (b *budgetTurn) firstTickets() []int {
	l := &b.q.line
	next, first := make([]int, len(l.flows)), b.ahead[:0]
	for i := range l.flows {
		next[i] = l.flows[i].first
	}
	for len(first) < maxAhead {
		from := -1
		for i := range l.flows {
			for next[i] < l.flows[i].end() && !b.mayTake(l.at(next[i])) {
				next[i]++
			}
			if next[i] < l.flows[i].end() && (from < 0 || l.at(next[i]).before(l.at(next[from]))) {
				from = i
			}
		}
		if from < 0 {
			break
		}
		first = append(first, next[from])
		next[from]++
	}
	return first
}

// mayTake reports whether the ticket is for endpoints with budgets, and its owner there to take one.
func (b *budgetTurn) mayTake(r record) bool {
	return b.q.lists[r.list()].budgets && !b.loads.IsSilent(r.owner())
}

// setAside sets aside what the ticket needs, at the target that can take it first, unless one can now.
func (b *budgetTurn) setAside(r record) {
	l := &b.q.lists[r.list()]
	targets, tokens := b.withAsides(r.list(), len(b.asides)), float64(r.tokens())
	if l.bonus <= 0 || budget.AnyTakes(targets, tokens) {
		return
	}
	i := budget.Earliest(targets, tokens)
	aside := budget.Aside(tokens, targets[i].TokenRate, float64(r.waited(b.turn.now)), l.bonus)
	b.asides = append(b.asides, Aside{l.entries[i].Row, aside})
}

// withAsides returns the targets of the list, less the first n asides. They are valid until the next call.
func (b *budgetTurn) withAsides(list, n int) []budget.Target {
	b.less = append(b.less[:0], b.targets[list]...)
	for _, a := range b.asides[:n] {
		for i := range b.less {
			if b.q.lists[list].entries[i].Row == a.Row {
				b.less[i].Aside += a.Tokens
			}
		}
	}
	return b.less
}

// targetsFor returns the targets of the ticket, less what is set aside for those before it.
func (b *budgetTurn) targetsFor(r record) []budget.Target {
	n := len(b.asides)
	for at, i := range b.ahead {
		if &b.q.line.at(i)[0] == &r[0] {
			n = b.before[at]
		}
	}
	return b.withAsides(r.list(), n)
}

// roomOf returns how many tokens the largest request has that a target takes, -1 if none takes any.
func roomOf(targets []budget.Target) float64 {
	room := -1.0
	for i := range targets {
		t := &targets[i]
		switch {
		case t.Full || t.Wait(0, t.Aside) > 0:
		case t.Wait(math.MaxFloat64, t.Aside) <= 0:
			return math.Inf(1)
		default:
			room = max(room, t.TokenRate-t.MissingTokens-t.Aside)
		}
	}
	return room
}

// takes reports whether a target can take the ticket's request.
func (b *budgetTurn) takes(r record) bool {
	l, tokens := r.list(), float64(r.tokens())
	// One number decides for most of them. Rounding must not make it differ from what the targets would give.
	if !b.q.lists[l].budgets || r.waited(b.turn.now) > r.max() || tokens > b.room[l]+1 {
		return false
	}
	return budget.AnyTakes(b.targetsFor(r), tokens)
}
