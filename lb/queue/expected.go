package queue

import (
	"math"
	"slices"
	"time"
)

// When is it the turn of a request that comes now? By its place in the order and by the pace of grants; and by the part
// of the grants that its class had while it waited, because who comes later may go first.

const (
	// minChances is of how many grants, made while a class waited, its part of them is known.
	minChances = 32
	// agedTurns is of how many grants one goes to a class of those that have waited for their aging, if it is the only
	// such class.
	agedTurns = 10
)

// shared notes that a ticket of the class was granted an endpoint. Of what was before, the kept part counts.
func (q *Queue) shared(class int, kept float64) {
	for i := range q.classes {
		c := &q.classes[i]
		if c.waiting > 0 {
			c.chances++
		}
		if i == class {
			c.granted++
		}
		c.chances *= kept
		c.granted *= kept
	}
}

// outlook returns after how many grants it is likely to be the turn of a request that comes now, and the mean time
// between two of them in ms. Either is 0 as long as nothing shows that the request would have to wait.
func (q *Queue) outlook(now time.Duration, t *Ticket) (turns, mean float64) {
	if t.Open || q.waiting == 0 {
		return 0, 0
	}
	mean, due := q.pace.interval(millis(now), t.places())
	number := slices.IndexFunc(q.classes, func(c class) bool { return c.id == t.Wait.Class.ID })
	own, all := q.ahead(number, t)
	turns = all + 1
	if number >= 0 && q.classes[number].chances >= minChances {
		c := &q.classes[number]
		turns = max(turns, (own+1)*c.chances/(c.granted+1))
	}
	if aging := float64(millis(t.Wait.Aging)); aging > 0 && mean > 0 {
		turns = min(turns, aging/mean+agedTurns*q.others(number)*(own+1))
	}
	return max(0, turns-due), mean
}

// others returns how many classes wait, counting that with the number whether it does or not.
func (q *Queue) others(number int) float64 {
	n := 1.0
	for i := range q.classes {
		if i != number && q.classes[i].waiting > 0 {
			n++
		}
	}
	return n
}

// ahead returns how many grants come before that to a request that comes now, as far as those that wait tell: to its
// class, and to all. Its turn comes when its tenant and its class were served as much as those before it there take.
// The number is that of its class, -1 if none of it has waited.
func (q *Queue) ahead(number int, t *Ticket) (own, all float64) {
	w := t.Wait
	start, virtual := q.virtual, 0.0
	if number >= 0 {
		c := &q.classes[number]
		if virtual = c.virtual; c.waiting > 0 || c.served > start {
			start = c.served
		}
	}
	tokens, upTo := 0.0, virtual
	for i := range q.flows {
		if f := &q.flows[i]; int(f.class) == number && f.tenant == w.Tenant {
			own, tokens = float64(f.waiting), f.tokens
			if f.waiting > 0 || f.served > virtual {
				upTo = f.served
			}
		}
	}
	upTo += tokens
	for i := range q.flows {
		if f := &q.flows[i]; int(f.class) == number && f.tenant != w.Tenant && f.waiting > 0 {
			n := served(upTo-f.served, f.tokens, f.waiting)
			own += n
			tokens += n * f.tokens / float64(f.waiting)
		}
	}
	all, upTo = own, start+tokens/w.Class.Weight
	for i := range q.classes {
		c := &q.classes[i]
		switch {
		case i == number || c.waiting == 0:
		case !w.Strict:
			all += served((upTo-c.served)*c.weight, c.tokens, c.waiting)
		case c.rank < w.Class.Rank:
			all += float64(c.waiting)
		}
	}
	return own, all
}

// served returns how many of the waiting requests, which have so many tokens together, are granted an endpoint until
// those before the last one of them have had the given number of tokens.
func served(upTo, tokens float64, waiting int) float64 {
	if upTo < 0 {
		return 0
	}
	return min(float64(waiting), math.Floor(upTo*float64(waiting)/tokens)+1)
}
