package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// Interleaver is a Backend that calls a function whenever a store is about to read or to write shared memory: what that
// changes before a write, the store has not read. nil: it calls none.
type Interleaver interface {
	Between(f func())
}

// tracked is a store that knows when it is in a call: an owner does one thing at a time.
type tracked struct {
	lb.Store
	calls int
}

// call notes that the store is in a call, and returns what ends that.
func (s *tracked) call() func() {
	s.calls++
	return func() { s.calls-- }
}

func (s *tracked) Reserve(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	defer s.call()()
	s.Store.Reserve(now, id, p, done)
}

func (s *tracked) Amend(now time.Duration, id lb.LeaseID, addr string, tokens int64) {
	defer s.call()()
	s.Store.Amend(now, id, addr, tokens)
}

func (s *tracked) Release(now time.Duration, id lb.LeaseID) {
	defer s.call()()
	s.Store.Release(now, id)
}

func (s *tracked) NoteServed(id lb.LeaseID, tokens int64) {
	defer s.call()()
	s.Store.NoteServed(id, tokens)
}

func (s *tracked) Settle(now time.Duration, id lb.LeaseID, addr string, tokens, requests int64) {
	defer s.call()()
	s.Store.Settle(now, id, addr, tokens, requests)
}

func (s *tracked) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	defer s.call()()
	s.Store.Restrict(now, scope, addr, r)
}

func (s *tracked) Poll(now time.Duration) time.Duration {
	defer s.call()()
	return s.Store.Poll(now)
}

func (s *tracked) Heartbeat(now time.Duration) error {
	defer s.call()()
	return s.Store.Heartbeat(now)
}

// newOwner returns the store of one more owner. Others may act while it is in a call.
func (c *chaos) newOwner() lb.Store { return &tracked{Store: c.NewOwner()} }

// interleave lets an owner act between a read and a write of another one, now and then.
func (c *chaos) interleave() {
	b, ok := c.Backend.(Interleaver)
	if !ok {
		return
	}
	b.Between(func() {
		if c.quiet || c.acting || c.rng.IntN(8) > 0 {
			return
		}
		o := c.owners[c.rng.IntN(len(c.owners))].(*tracked)
		if o.calls > 0 {
			return
		}
		c.acting, c.still = true, true
		switch c.rng.IntN(4) {
		case 0:
			c.reserve(o)
		case 1:
			o.Poll(c.now)
		default:
			c.releaseOne(func(r *asked) bool { return r.owner == o })
		}
		c.acting, c.still = false, false
	})
}

// testQueueLateRoom: a request would rather wait for a full endpoint than take an open one, and is about to be refused,
// since the queue has no place. At some moment of that, another owner frees the endpoint. The request counts if it is
// told that it was placed, and only then.
func testQueueLateRoom(t *testing.T, l *line) {
	if _, ok := l.Backend.(Interleaver); !ok {
		t.Skip("nobody acts between a read and a write of this backend")
	}
	for moment := 1; ; moment++ {
		l = &line{world: &world{t: t, open: l.open, Backend: l.open(), now: time.Hour}, still: true}
		o, addrs := l.join(2), Addrs(2)
		holder := l.warmUp(o[0], addrs)
		l.take(o[1], limited([]string{"10.9.9.9:8000"}, 9, wait(high))) // so that it has read the table before
		b, calls := l.Backend.(Interleaver), 0
		b.Between(func() {
			if calls++; calls == moment {
				l.release(holder)
			}
		})
		p := prompted(addrs, 8, warmSeed)
		p.Wait.Patience, p.Wait.Length = 2*time.Second, 0
		r := l.ask(o[1], p)
		b.Between(nil)
		if calls < moment { // nobody has acted
			if moment == 1 || !errors.Is(r.err, lb.ErrQueueFull) {
				t.Errorf("after %d moments the request is answered with %v", moment-1, r.err)
			}
			return
		}
		if r.waits() {
			t.Fatalf("moment %d: the request waits in a queue without a place", moment)
		}
		if r.err == nil {
			l.want(addrs, 1, 0)
			l.release(r)
		}
		l.want(addrs, 0, 0)
	}
}
