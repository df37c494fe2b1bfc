package push

import (
	"math"
	"time"
)

// Answer is what the gateway has seen of a good answer.
type Answer struct {
	Addr     string
	PlacedAt time.Duration // when the request was placed there, after it has waited elsewhere
	Inflight int64         // requests in flight there at that time, over all owners, this one included
	Begun    bool          // the first of several parts has come, and the answer goes on: it is streamed
	Streamed bool          // such an answer has ended
	Bytes    int           // length of an answer in one piece
}

// window is answers of one endpoint, until there are enough to judge by.
//
// How long a request has waited shows when a streamed answer begins. Of an answer in one piece nobody sees that. But
// one that is twice as long takes twice the time to generate, and no more time to wait: on a line through durations by
// lengths, the shortest answer has waited as long as any other. Durations of long answers differ more, so an answer
// weighs 1/length (weighted least squares). Where all are equally long the whole duration counts as wait: it grows as
// waits do.
type window struct {
	began             time.Duration // when the first of them was known
	n, inflight       float64       // count of those that show a wait, and sum
	most              float64       // most requests in flight
	begun             float64       // sum of the times to first token of streams
	whole             float64       // count of answers in one piece, and sums of
	bytes, took       float64       // their lengths and durations
	perByte, tookEach float64       // 1/length and duration/length
	shortest          float64       // length
}

// worth is how much of an increase of the requests in flight may show in the time that they take, as an exponent.
const worth = 0.5

// ridge keeps the line flat where lengths hardly differ, by ridge regression.
const ridge = 0.01

func (w *window) add(now time.Duration, a *Answer, seconds float64) {
	if w.n++; w.n == 1 {
		w.began = now
	}
	w.inflight += float64(a.Inflight)
	w.most = max(w.most, float64(a.Inflight))
	if a.Begun {
		w.begun += seconds
		return
	}
	b := float64(max(a.Bytes, 1))
	if w.whole++; w.whole == 1 || b < w.shortest {
		w.shortest = b
	}
	w.bytes, w.took = w.bytes+b, w.took+seconds
	w.perByte, w.tookEach = w.perByte+1/b, w.tookEach+seconds/b
}

// halve has the answers so far count for half as many.
func (w *window) halve() {
	for _, sum := range [...]*float64{
		&w.n, &w.inflight, &w.begun, &w.whole, &w.bytes, &w.took, &w.perByte, &w.tookEach,
	} {
		*sum /= 2
	}
}

// point is what answers show while about so many requests are in flight.
type point struct {
	inflight float64
	wait     float64 // estimate of the seconds from the placement until an answer begins
	rest     float64 // seconds from then until it ends
}

// point returns the means, given how long an answer of this endpoint takes.
func (w *window) point(took float64) point {
	p := point{inflight: w.inflight / w.n, wait: w.begun}
	if w.whole > 0 {
		square := w.whole * w.whole
		slope := max(0, w.perByte*w.took-w.whole*w.tookEach) / (w.perByte*w.bytes - square + ridge*square)
		p.wait += w.whole * max(0, (w.tookEach-slope*w.whole)/w.perByte+slope*w.shortest)
		took = w.took / w.whole
	}
	p.wait /= w.n
	p.rest = max(took-p.wait, took/8, 1e-3)
	return p
}

// follow moves p towards q where that has about as many requests in flight, and to it otherwise.
func (p *point) follow(q *point) {
	if f := q.inflight / p.inflight; !(f > 0.9 && f < 1.1) { // also where p is zero
		*p = *q
		return
	}
	p.wait += (q.wait - p.wait) / 4
	p.inflight, p.rest = q.inflight, q.rest
}

// fuller returns how much longer answers take at q than at p because they wait, as a logarithm, less what is worth it.
func (p *point) fuller(q *point) float64 {
	return math.Log((q.wait+p.rest)/(p.wait+p.rest)) - worth*max(0, math.Log(q.inflight/p.inflight))
}
