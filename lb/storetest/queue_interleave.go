package storetest

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Interleaver is a Backend that calls a function whenever a store reads shared memory. What that changes is there
// before the store writes.
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
