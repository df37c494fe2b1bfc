package storetest

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// tracked is a store that knows when it is in a call: an owner does one thing at a time.
type tracked struct {
	lb.Store
	calls int
}

// track returns the store of an owner. Others may act while it is in a call.
func track(s lb.Store) *tracked { return &tracked{Store: s} }

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
