package storetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// rival is a tenant of whom some requests always wait.
type rival struct {
	class  lb.Class
	tenant uint64
	mean   float64 // tokens of a request, which vary widely
	guess  int64   // that each request is estimated at
	fresh  bool    // each request is of a new program

	waiting []*asked
	served  float64
}

// rivalry is requests that are being served.
type rivalry struct {
	*line
	rng  *rand.Rand
	busy []served
	time float64 // in tokens
}

type served struct {
	*asked
	by     *rival
	tokens float64
	ends   float64
}

// compete has the rivals compete for 4 places until they were served so many tokens. What each request really takes
// is known at its end.
func (l *line) compete(tokens float64, rivals ...*rival) {
	r := &rivalry{line: l, rng: rand.New(rand.NewPCG(3, uint64(len(rivals))))}
	owners, addrs := l.join(2), Addrs(2)
	for total := 0.0; total < tokens; {
		l.poll()
		for _, v := range rivals {
			r.collect(v)
			for len(v.waiting) < 3 {
				p := limited(addrs, 2, wait(v.class))
				if v.fresh {
					v.tenant += 1 << 32
				}
				p.Wait.Tenant, p.Tokens = v.tenant, v.guess
				v.waiting = append(v.waiting, l.ask(owners[r.rng.IntN(2)], p))
				r.collect(v)
			}
		}
		next := 0
		for i := range r.busy {
			if r.busy[i].ends < r.busy[next].ends {
				next = i
			}
		}
		done := r.busy[next]
		r.busy = append(r.busy[:next], r.busy[next+1:]...)
		r.time = done.ends
		done.owner.NoteServed(done.id, int64(done.tokens))
		l.release(done.asked)
		done.by.served += done.tokens
		total += done.tokens
	}
}

// collect takes over those of the rival that do not wait any more. Their lengths have a long tail.
func (r *rivalry) collect(v *rival) {
	kept := v.waiting[:0]
	for _, a := range v.waiting {
		switch {
		case a.waits():
			kept = append(kept, a)
		case a.err != nil:
			r.t.Fatalf("a request of tenant %d: %v", v.tenant, a.err)
		default:
			tokens := math.Ceil(v.mean * min(math.Exp(r.rng.NormFloat64()-0.5), 5))
			r.busy = append(r.busy, served{a, v, tokens, r.time + tokens})
		}
	}
	v.waiting = kept
}

// expectShares fails the test unless each of the rivals was served its share, within 5 %.
func (l *line) expectShares(rivals []*rival, shares ...float64) {
	l.t.Helper()
	total, sum := 0.0, 0.0
	for i, v := range rivals {
		total, sum = total+v.served, sum+shares[i]
	}
	for i, v := range rivals {
		if got, want := v.served/total, shares[i]/sum; got < want*0.95 || got > want*1.05 {
			l.t.Errorf("tenant %d of class %d got %.3f of the tokens, want %.3f", v.tenant, v.class.ID, got, want)
		}
	}
}

// testQueueServedTenants: tenants of a class get equal parts of what is served, whatever was estimated.
func testQueueServedTenants(_ *testing.T, l *line) {
	rivals := []*rival{
		{class: high, tenant: 1, mean: 3000, guess: 250},
		{class: high, tenant: 2, mean: 100, guess: 250},
		{class: high, tenant: 3, mean: 900, guess: 5000},
	}
	l.compete(2e6, rivals...)
	l.expectShares(rivals, 1, 1, 1)
}

// testQueueServedPrograms: programs of a tenant get equal parts of what that gets, which has no more for having more.
func testQueueServedPrograms(_ *testing.T, l *line) {
	rivals := []*rival{
		{class: high, tenant: lb.TurnOf(1, 7), mean: 2000, guess: 250},
		{class: high, tenant: lb.TurnOf(1, 8), mean: 150, guess: 250},
		{class: high, tenant: lb.TurnOf(1, 0), mean: 600, guess: 5000},
		{class: high, tenant: lb.TurnOf(2, 7), mean: 900, guess: 250},
	}
	l.compete(2e6, rivals...)
	l.expectShares(rivals, 1, 1, 1, 3)
}

// testQueueServedFresh: a tenant whose requests are all of new programs gets no more than another one.
func testQueueServedFresh(t *testing.T, l *line) {
	fresh := &rival{class: high, tenant: 1, mean: 900, guess: 900, fresh: true}
	steady := &rival{class: high, tenant: lb.TurnOf(2, 7), mean: 900, guess: 900}
	l.compete(1e6, fresh, steady)
	if part := fresh.served / (fresh.served + steady.served); part > 0.55 || part < 0.25 {
		t.Errorf("a tenant with a new program for each request got %.2f of the tokens", part)
	}
}

// testQueueServedClasses: classes get their parts by weight, and in each the tenants equal ones.
func testQueueServedClasses(_ *testing.T, l *line) {
	rivals := []*rival{
		{class: high, tenant: 1, mean: 600, guess: 250},
		{class: high, tenant: 2, mean: 200, guess: 250},
		{class: low, tenant: 1, mean: 2000, guess: 250},
	}
	l.compete(1.5e6, rivals...)
	l.expectShares(rivals, 4, 4, 1)
}

// testQueueServedOnce: what a request was served counts once, however often that is noted, wherever the request went,
// and only if it has waited.
func testQueueServedOnce(_ *testing.T, l *line) {
	o, addrs := l.join(2), Addrs(2)
	of := func(tenant uint64) *lb.Plan {
		p := limited(addrs[:1], 1, wait(high))
		p.Wait.Tenant, p.Tokens = tenant, 100
		return p
	}
	holder := l.take(o[0], of(1))
	first := l.queue(o[0], of(1))
	waiting := []*asked{l.queue(o[1], of(1))}
	for range 6 {
		waiting = append(waiting, l.queue(o[0], of(2)))
	}
	o[0].NoteServed(holder.id, 1e6)
	l.release(holder)
	l.granted(append(waiting, first), first)
	o[0].NoteServed(first.id, 1e6)
	o[0].NoteServed(first.id, 350)
	o[0].Amend(l.now, first.id, addrs[1], 5000)
	l.granted(waiting, waiting[1])
	for range 2 {
		l.release(first)
	}
	rest := slices.Concat(waiting[:1], waiting[2:])
	l.expectOrder(waiting[1], rest, 1, 2, 3, 0, 4, 5) // the first one only when the other tenant has got 400
}
