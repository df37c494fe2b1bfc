package queue

import "time"

// Correct adds to what a tenant and its class were served the tokens by which a request of theirs turned out larger
// than it was counted for with its grant; below 0, smaller. What is not in the queue any more needs no correction.
//
// Without it, start-time fair queueing would share what is only estimated: see grant. A virtual time may so fall below
// that of the flow that was served last, by what the flow was charged too much and no more. Then the flow is next.
//
// Whether this request was granted out of turn is not known any more: the correction is divided as the latest grants
// of the class were, between its virtual time, by which others are owed something, and what it was owed itself.
func (q *Queue) Correct(now time.Duration, class uint16, tenant uint64, tokens int64) {
	number := q.line.findClass(class)
	if number >= 0 {
		c := &q.line.classes[number]
		odd := c.odd * float64(tokens)
		usual := float64(tokens) - odd
		c.served = max(0, c.served+usual/c.weight)
		c.due -= odd
		q.line.owe(q.line.findAged(millis(now), nil), number, usual)
	}
	if f := q.line.findFlow(number, tenant); f != nil {
		n := q.line.programs(f)
		served := f.served + float64(tokens)*n
		if tokens < 0 && n > 1 { // there may have been fewer programs when it was granted
			served = max(served, min(f.served, q.line.classes[f.class].virtual+float64(tokens)))
		}
		f.served = max(0, served)
	}
}
