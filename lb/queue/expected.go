package queue

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// When is it the turn of a request that comes now? By its place in the order and by the pace of grants; and by the part
// of the grants that its class had while it waited, because who comes later may go first.

const (
	// minChances is of how many grants, made while a class or a flow waited, its part of them is known, and maxChances
	// how many count at most: as soon as there are more, those before count for less with each.
	minChances, maxChances = 32, 400
	// deviations is by how many standard deviations grants may come later than in the mean for a request to be let in.
	deviations = 1.5
	// agedTurns is of how many grants one goes to a class of those that have waited for their aging, if it is the only
	// such class.
	agedTurns = perAged + 1
)

// share is the part of a class or a flow of the grants that were made while it waited and the clock of the pace ran.
type share struct {
	chances float64 // number of all these grants
	granted float64 // number of those to it
}

// note notes a grant while it waits, to it or not.
func (s *share) note(toIt bool) {
	s.chances++
	if toIt {
		s.granted++
	}
	if s.chances > maxChances {
		s.granted *= maxChances / s.chances
		s.chances = maxChances
	}
}

// turns returns how many grants there are for so many to it, 0 if that is not known.
func (s *share) turns(n float64) float64 {
	if s.chances < minChances {
		return 0
	}
	return n * s.chances / (s.granted + 1)
}

// noteShares notes that a ticket of the flow is about to be granted an endpoint.
func (q *Queue) noteShares(of *flow) {
	for i := range q.classes {
		if c := &q.classes[i]; c.waiting > 0 {
			c.share.note(i == int(of.class))
		}
	}
	for i := range q.flows {
		if f := &q.flows[i]; f.waiting > 0 {
			f.share.note(f == of)
		}
	}
}

// outlook returns after how long it is likely to be the turn of a request that comes now, and how much later it may be
// by chance, in ms: 0 as long as nothing shows that the request would have to wait.
//
// The standard deviation of n grants that come independently is that of the square root of n. Of those to who comes
// later it is that of all grants, however few are left.
func (q *Queue) outlook(now time.Duration, t *Ticket) (likely, spread float64) {
	if t.Open || q.waiting == 0 {
		return 0, 0
	}
	mean, due := q.pace.interval(millis(now), t.places())
	number := q.findClass(t.Wait.Class.ID)
	f := q.findFlow(number, t.Wait.Tenant)
	own, all := q.ahead(number, f, t.Wait)
	known := all + 1
	turns := known
	if number >= 0 && q.classes[number].waiting > 0 { // else nothing has shown its part since
		turns = max(turns, q.classes[number].share.turns(own+1))
	}
	if f != nil && f.waiting > 0 {
		turns = max(turns, f.share.turns(float64(f.waiting+1)))
	}
	if aging := float64(millis(t.Wait.Aging)); aging > 0 && mean > 0 {
		turns = min(turns, aging/mean+agedTurns*q.others(number)*(own+1))
	}
	left := max(0, turns-due)
	return left * mean, deviations * math.Sqrt(left) * max(1, turns/known) * mean
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
// The number is that of its class, -1 if none of it has waited, and the flow its own, nil likewise.
func (q *Queue) ahead(number int, f *flow, w *lb.Wait) (own, all float64) {
	start, virtual := q.virtual, 0.0
	if number >= 0 {
		c := &q.classes[number]
		if virtual = c.virtual; c.waiting > 0 || c.served > start {
			start = c.served
		}
	}
	tokens, upTo := 0.0, virtual
	if f != nil {
		if own, tokens = float64(f.waiting), f.tokens; f.waiting > 0 || f.served > virtual {
			upTo = f.served
		}
	}
	upTo += tokens
	for i := range q.flows {
		if o := &q.flows[i]; int(o.class) == number && o != f && o.waiting > 0 {
			n := served(upTo-o.served, o.tokens, o.waiting)
			own += n
			tokens += n * o.tokens / float64(o.waiting)
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
