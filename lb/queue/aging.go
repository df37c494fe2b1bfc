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

// findAged finds the aged classes, if several wait.
func (t *turn) findAged() {
	q := t.q
	t.aged = append(t.aged[:0], make([]bool, len(q.classes))...)
	for i := range q.flows {
		f := &q.flows[i]
		if f.waiting == 0 || t.aged[f.class] || q.classes[f.class].waiting == q.waiting {
			continue
		}
		at, ok := q.at(f.first).ages()
		t.aged[f.class] = ok && int32(t.now-at) >= 0
	}
}

// owe notes that tokens are granted to a class in its usual turn: the aged classes that it passes are owed their part.
// One for which nothing is open is owed no more than its part of one grant.
func (t *turn) owe(to int, tokens float64) {
	passed := 0
	for i, aged := range t.aged {
		if aged && i != to {
			passed++
		}
	}
	part := tokens / perAged / float64(max(passed, 1))
	for i, aged := range t.aged {
		if c := &t.q.classes[i]; aged && i != to {
			c.due = max(c.due, min(c.due, 0)+part)
		}
	}
}

// paid notes that tokens are granted to the class. Out of turn they may be more than what it is owed. In its usual turn
// it is owed nothing then: it has to be passed by as much as any other before it has a turn that is not usual.
func (c *class) paid(tokens float64, outOfTurn bool) {
	left := c.due - tokens
	if !outOfTurn {
		left = max(left, min(c.due, -tokens))
	}
	c.due = left
}

// owed returns the aged classes that are owed something, the one that is owed most in front.
func (t *turn) owed() []int {
	q := t.q
	t.classes = t.classes[:0]
	for i, aged := range t.aged {
		if aged && q.classes[i].due > 0 {
			t.classes = append(t.classes, i)
		}
	}
	order.By(t.classes, func(i, j *int) bool {
		a, b := &q.classes[*i], &q.classes[*j]
		return a.due > b.due || a.due == b.due && *i < *j
	})
	return t.classes
}
