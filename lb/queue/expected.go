package queue

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// When is it the turn of a request that comes now? By its place in the order and by the pace of grants; and by the part
// of the grants that its class got while it waited, because who comes later may go first. However many these are, the
// weights bound what passes it, and aging does.

const (
	// deviations is by how many standard deviations grants may come later than in the mean for a request to be let in,
	// and passedDeviations by how many more if all grants are to others: what these do is less steady.
	deviations, passedDeviations = 1.5, 0.85
	// perPasser is the variance of the number of those who pass, for each: they come in bursts, and are served in such.
	perPasser = 2
)

// course is a way in which the turn of a request may come.
type course struct {
	turns  float64 // mean number of grants until the request has its own, which counts
	part   part    // of the grants that bring it nearer: the others are to who comes later
	passed float64 // part of the grants that others get
}

// within returns whether it is likely to be the request's turn within so many grants, of which some are due.
//
// The number of grants that bring it nearer has the variance of grants that come independently; that of those who pass;
// and that of their part, as far as it is known. That it is enough once is what counts, also if those who pass were
// more in the end: so where the standard deviation is more than the mean, a few can be expected nevertheless. The
// solution of the equation of first passage by a Brownian motion is near the root here, for a chance of 1 to 7 %.
func (c course) within(limit, due float64) bool {
	left := (c.turns - due) * c.part.of
	if left <= 0 {
		return true
	}
	deviation := math.Sqrt(limit * (1 + perPasser*(1-c.part.of)*(1+limit/c.part.chances)))
	x := c.part.of*limit/deviation - deviations - passedDeviations*c.passed
	return left <= deviation*(x+math.Sqrt(x*x+0.7))/2
}

// outlook returns after how long it is likely to be the turn of a request that comes now, in ms, 0 as long as nothing
// shows that it would have to wait; and whether that is likely to be too late.
func (q *Queue) outlook(now time.Duration, t *Ticket) (likely float64, hopeless bool) {
	mean, due := q.pace.interval(millis(now), t.places())
	if t.Open || q.line.waiting == 0 || mean <= 0 || len(q.lists[t.List].entries) == 0 {
		return 0, false
	}
	limit, turns := float64(millis(min(t.Wait.Max, MaxTime)))/mean, math.Inf(1)
	hopeless = true
	for _, c := range q.line.courses(millis(now), mean, t.Wait) {
		turns, hopeless = min(turns, c.turns), hopeless && !c.within(limit, due)
	}
	return max(0, turns-due) * mean, hopeless
}

// courses returns the ways in which the turn of a request may come: the soonest one counts. One grant is made in so
// many ms.
func (l *line) courses(now uint32, mean float64, w *lb.Wait) [3]course {
	number := l.findClass(w.Class.ID)
	f := l.findFlow(number, l.nameOf(number, w))
	a := l.ahead(now, number, f, w)
	class, flow := l.partOfClass(now, number, w, mean), part{1, 1}
	known := a.own + 1
	own := known
	if f != nil && f.waiting > 0 {
		flow = l.partOfFlow(now, f, mean/class.of)
		own = max(own, float64(f.waiting+1)/flow.of)
		flow.of = known / own
	}
	both := part{class.of * flow.of, class.chances}
	if class.chances < minChances {
		both.chances = flow.chances
	}
	byWeights, byAging := own+a.weights, math.Inf(1)
	if aging := float64(millis(min(w.Aging, MaxTime))); aging > 0 && a.size > 0 {
		tokens := a.tokens * own / known
		if number >= 0 && l.classes[number].waiting > 0 {
			tokens = max(0, tokens-l.classes[number].due)
		}
		byAging = aging/mean + own + 1 + ((perAged+1)*a.rivals-1)*tokens/a.size
	}
	return [3]course{
		{(own + a.others) / class.of, both, 1 - both.of},
		{byWeights, flow, 1 - known/byWeights},
		{byAging, flow, 1 - known/byAging},
	}
}

// ahead is what is granted before the turn of a request.
type ahead struct {
	own, tokens float64 // requests of its class, and their tokens
	others      float64 // requests of other classes that wait now
	weights     float64 // requests of other classes at most by the weights, whoever comes
	rivals      float64 // how many other classes may be aged while it is passed, itself included
	size        float64 // tokens of a request of those that pass it, in the mean, 0 if none of them waits
}

// ahead returns what is granted before a request that comes now. Its turn comes when its program, its tenant and its
// class were served as much as those before it there take. The number is that of its class, -1 if none of it has
// waited, and the flow its own, nil likewise.
func (l *line) ahead(now uint32, number int, f *flow, w *lb.Wait) (a ahead) {
	start, virtual := l.virtual, 0.0
	if number >= 0 {
		c := &l.classes[number]
		if virtual = c.virtual; c.waiting > 0 || c.served > start {
			start = c.served
		}
	}
	upTo := virtual
	if f != nil {
		if a.own, a.tokens = float64(f.waiting), f.tokens; f.waiting > 0 || f.served > virtual {
			upTo = f.served
		}
	}
	programs := l.programsIn(number, f, w)
	upTo += a.tokens * programs[uint32(w.Tenant)]
	for i := range l.flows {
		if o := &l.flows[i]; int(o.class) == number && o != f && o.waiting > 0 {
			n := served((upTo-o.served)/programs[uint32(o.tenant)], o.tokens, o.waiting)
			a.own += n
			a.tokens += n * o.tokens / float64(o.waiting)
		}
	}
	l.othersAhead(now, number, start+a.tokens/w.Class.Weight, w, &a)
	return a
}

// programsIn returns how many programs of each tenant take turns in the class with the number once the request waits,
// of which the flow is.
func (l *line) programsIn(number int, f *flow, w *lb.Wait) map[uint32]float64 {
	n := map[uint32]float64{}
	if f == nil || !l.takesTurns(f) {
		n[uint32(w.Tenant)] = 1
	}
	for i := range l.flows {
		if o := &l.flows[i]; int(o.class) == number && l.takesTurns(o) {
			n[uint32(o.tenant)]++
		}
	}
	return n
}

// othersAhead adds what is granted to other classes until that with the number was served so much by its weight. One
// that does not wait, but came within the time that the request may wait, is not held back by its weight now.
func (l *line) othersAhead(now uint32, number int, upTo float64, w *lb.Wait, a *ahead) {
	waiting, tokens := 0.0, 0.0
	if w.Strict {
		a.weights = math.Inf(1)
	}
	for i := range l.classes {
		c := &l.classes[i]
		n := float64(c.waiting)
		if i == number {
			continue
		}
		if c.waiting == 0 {
			if passed(c.came, now) < millis(min(w.Max, MaxTime)) {
				a.weights = math.Inf(1)
			}
			continue
		}
		a.rivals++
		switch {
		case !w.Strict:
			a.others += served((upTo-c.served)*c.weight, c.tokens, c.waiting)
			a.weights += max(0, (upTo-c.served)*c.weight*n/c.tokens+1)
		case c.rank < w.Class.Rank:
			a.others += n
		default:
			continue
		}
		waiting, tokens = waiting+n, tokens+c.tokens
	}
	if waiting > 0 {
		a.size = tokens / waiting
	}
}

// served returns how many of the waiting requests, which have so many tokens together, are granted an endpoint until
// those before the last one of them have had the given number of tokens.
func served(upTo, tokens float64, waiting int) float64 {
	if upTo < 0 {
		return 0
	}
	return min(float64(waiting), math.Floor(upTo*float64(waiting)/tokens)+1)
}
