package queue

import "github.com/warmgate/warmgate/lb"

// Which part of the grants those get that wait, while others come later and go first.

const (
	// minChances is of how many grants, made while a class or a flow waited, its part of them is known, and maxChances
	// how many count at most: as soon as there are more, those before count for less with each.
	minChances, maxChances = 32, 400
	// quietArrivals is how many others are expected in a time of which it shows that there are fewer now, if none has
	// come: by chance none comes once in e^7.
	quietArrivals = 7
)

// share is the part of a class of the grants that were made while it waited and the clock of the pace ran; or that of a
// flow of those to its class.
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

// part is a part of the grants, and by how many of them it is known.
type part struct{ of, chances float64 }

// part returns the part that it is likely to get, 1 if that is not known. While so many grants were made none of those
// came that pass it: so these get less than quietArrivals in so many, whatever was before; others always get rest.
func (s *share) part(grants, rest float64) part {
	if s.chances < minChances {
		return part{1, 1}
	}
	of := min(1, (s.granted+1)/s.chances)
	return part{max(of, 1-quietArrivals/max(grants, 1)-rest), s.chances}
}

// noteShares notes that a ticket of the flow is about to be granted an endpoint.
func (l *line) noteShares(of *flow) {
	for i := range l.classes {
		if c := &l.classes[i]; c.waiting > 0 {
			c.share.note(i == int(of.class))
		}
	}
	for i := range l.flows {
		if f := &l.flows[i]; f.waiting > 0 && f.class == of.class {
			f.share.note(f == of)
		}
	}
}

// noteArrival notes when the latest ticket came. One that is planned anew came long ago.
func noteArrival(came *uint32, since uint32) {
	if int32(since-*came) > 0 {
		*came = since
	}
}

// partOfClass returns the part of the grants that the class with the number gets, where one is made in so many ms.
// Where classes age, those below it get their part, whoever comes.
func (l *line) partOfClass(now uint32, number int, w *lb.Wait, mean float64) part {
	if number < 0 || l.classes[number].waiting == 0 {
		return part{1, 1} // nothing has shown its part since it waited
	}
	quiet, rest := ^uint32(0), 0.0
	for i := range l.classes {
		switch c := &l.classes[i]; {
		case i == number:
		case !w.Strict || c.rank < w.Class.Rank:
			quiet = min(quiet, passed(c.came, now))
		case c.waiting > 0 && w.Aging > 0:
			rest = 1.0 / (perAged + 1)
		}
	}
	return l.classes[number].share.part(float64(quiet)/mean, rest)
}

// partOfFlow returns the part of those of its class that a flow gets, if it waits.
func (l *line) partOfFlow(now uint32, of *flow, mean float64) part {
	quiet := ^uint32(0)
	for i := range l.flows {
		if f := &l.flows[i]; f != of && f.class == of.class {
			quiet = min(quiet, passed(f.came, now))
		}
	}
	return of.share.part(float64(quiet)/mean, 0)
}

// passed returns how much time has passed since then, in ms.
func passed(since, now uint32) uint32 { return uint32(max(0, int32(now-since))) }
