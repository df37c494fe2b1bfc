package queue

import "github.com/warmgate/warmgate/internal/order"

// What a class is served depends on the others: with strict order a lower one may get nothing, with weights one of
// little weight gets little. So a class is aged once the first ticket of one of its tenants has waited for its aging.
// Of what is granted while it is passed, an aged class is owed a part, and takes that out of turn.
//
// It is a part of what is served, not of the turns, because the requests of one class may be a hundred times as large
// as those of another. To put all requests first that have waited for their aging would make a backlog that is older
// than that a queue without classes. Tenants need no aging: start-time fair queueing bounds how long one waits for the
// others of its class.

// perAged is for how many tokens that are granted in usual turns one is owed to the aged classes: all of them together
// are granted a tenth at least, and m of them an m-th of that each. What a class is granted in its usual turns counts:
// one with a larger share by its weight needs no other turn.
const perAged = 9

// ages returns from when on the ticket has waited for its aging, in ms, and false if it has none.
func (r record) ages() (at uint32, ok bool) { return r.since() + r.aging(), r.aging() > 0 }

// findAged finds the aged classes, if several wait, and what the first aged ticket of each costs.
func (t *turn) findAged() {
	q := t.q
	t.aged = append(t.aged[:0], make([]float64, len(q.classes))...)
	for i := range q.flows {
		f := &q.flows[i]
		if f.waiting == 0 || t.aged[f.class] > 0 || q.classes[f.class].waiting == q.waiting {
			continue
		}
		r := q.at(f.first)
		if at, ok := r.ages(); ok && int32(t.now-at) >= 0 {
			t.aged[f.class] = float64(max(r.tokens(), 1))
		}
	}
}

// owe notes that tokens are granted to a class in its usual turn: the aged classes that it passes are owed their part.
// None is owed more than this part and what its first ticket costs: a class for which nothing is open saves up nothing.
func (t *turn) owe(to int, tokens float64) {
	passed := 0
	for i, cost := range t.aged {
		if cost > 0 && i != to {
			passed++
		}
	}
	part := tokens / perAged / float64(max(passed, 1))
	for i, cost := range t.aged {
		if c := &t.q.classes[i]; cost > 0 && i != to {
			c.due = max(c.due, min(c.due, cost)+part)
		}
	}
}

// nextAged returns the ticket that has a turn at the row because its class is aged, -1 for none. Of several classes it
// is the one that is owed most, among those that are owed what their next ticket costs.
func (t *turn) nextAged(row int) int {
	q := t.q
	t.classes = t.classes[:0]
	for i, cost := range t.aged {
		if cost > 0 && q.classes[i].due >= 1 {
			t.classes = append(t.classes, i)
		}
	}
	order.By(t.classes, func(i, j *int) bool {
		a, b := &q.classes[*i], &q.classes[*j]
		return a.due > b.due || a.due == b.due && *i < *j
	})
	for _, class := range t.classes {
		f, first := t.flowOf(class, row)
		if f != nil && q.classes[class].due >= float64(max(q.at(first).tokens()-q.at(first).saved(row), 1)) {
			return t.nextOf(f, first, row)
		}
	}
	return -1
}
