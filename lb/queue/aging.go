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

// oddMemory is of about how many grants it is known which part was out of turn.
const oddMemory = 16

// ages returns from when on the ticket has waited for its aging, in ms, and false if it has none.
func (r record) ages() (at uint32, ok bool) { return r.since() + r.aging(), r.aging() > 0 }

// findAged returns which classes are aged, if several wait, in the memory of the slice.
func (l *line) findAged(now uint32, aged []bool) []bool {
	aged = append(aged[:0], make([]bool, len(l.classes))...)
	for i := range l.flows {
		f := &l.flows[i]
		if f.waiting == 0 || aged[f.class] || l.classes[f.class].waiting == l.waiting {
			continue
		}
		at, ok := l.at(f.first).ages()
		aged[f.class] = ok && int32(now-at) >= 0
	}
	return aged
}

// owe notes that tokens are granted to a class in its usual turn: the aged classes that it passes are owed their part.
// One for which nothing is open is owed no more than its part of one grant. Below 0 they were fewer than was thought.
func (l *line) owe(aged []bool, to int, tokens float64) {
	passed := 0
	for i, isAged := range aged {
		if isAged && i != to {
			passed++
		}
	}
	part := tokens / perAged / float64(max(passed, 1))
	for i, isAged := range aged {
		if c := &l.classes[i]; isAged && i != to {
			c.due = max(c.due+min(part, 0), min(c.due, 0)+part)
		}
	}
}

// paid notes that tokens are granted to the class. Out of turn they may be more than what it is owed. In its usual turn
// it is owed nothing then: it has to be passed by as much as any other before it has a turn that is not usual.
func (c *class) paid(tokens float64, outOfTurn bool) {
	left, odd := c.due-tokens, 1.0
	if !outOfTurn {
		left, odd = max(left, min(c.due, -tokens)), 0
	}
	c.due = left
	c.odd += (odd - c.odd) / oddMemory
}

// owed returns the aged classes that are owed something, the one that is owed most in front, in the memory of the
// slice.
func (l *line) owed(aged []bool, classes []int) []int {
	classes = classes[:0]
	for i := range aged {
		if aged[i] && l.classes[i].due > 0 {
			classes = append(classes, i)
		}
	}
	order.By(classes, func(i, j *int) bool {
		a, b := &l.classes[*i], &l.classes[*j]
		return a.due > b.due || a.due == b.due && *i < *j
	})
	return classes
}
