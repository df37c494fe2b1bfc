package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Reserve implements [lb.Store].
func (s *Store) Reserve(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	if l, ok := s.leases[id]; ok && l.state == held {
		done(l.grant, nil)
		return
	} else if ok && l.state == waiting {
		first := l.waiter.done
		l.waiter.done = func(g lb.Grant, err error) { first(g, err); done(g, err) }
		return
	}
	if _, ok := s.releasedEarly[id]; ok {
		delete(s.releasedEarly, id)
		done(lb.Grant{}, lb.ErrReleased)
		return
	}
	if err := s.owner.cannotReserve(p); err != nil {
		done(lb.Grant{}, err)
		return
	}
	sc := s.scopeOf(p.Scope)
	r := &reservation{id: id, List: p.List, limits: limitsOf(p), sentAt: now, done: done}
	if p.Wait.Waits() {
		r.plan = *p
		s.owner.undecided++
	}
	r.lease = sc.ledger.addLease(now, id, &lease{state: pending, tokens: countedTokens(p)})
	r.lease.reservation = r
	sc.composer.setCommand(now, r, p)
	sc.reservations.send(now, r)
}

// countedTokens returns what the lease counts for if nothing of the prompt is cached.
func countedTokens(p *lb.Plan) int64 {
	if p.HasBudget() {
		return p.AddedTokens(0)
	}
	return clampTokens(p.Tokens)
}

// Adopt implements [lb.RemoteStore].
func (s *Store) Adopt(now time.Duration, id lb.LeaseID, scope, addr string, tokens int64) {
	led := &s.scopeOf(scope).ledger
	led.addLease(now, id, &lease{state: held, addr: addr, tokens: clampTokens(tokens)})
	led.sendAssert(now, []lb.LeaseID{id}, func(time.Duration, error) {})
}

// Amend implements [lb.Store].
func (s *Store) Amend(now time.Duration, id lb.LeaseID, addr string, tokens int64) {
	l, ok := s.leases[id]
	if !ok || l.state != held {
		return
	}
	if addr != "" {
		l.addr = addr
	}
	l.tokens = clampTokens(tokens)
	l.version++
	l.ledger.sendAmend(now, id, l)
}

// NoteServed implements [lb.Store].
func (s *Store) NoteServed(id lb.LeaseID, tokens int64) {
	if l, ok := s.leases[id]; ok && l.turn.tokens > 0 {
		l.turn.corrected = clampTokens(tokens) - l.turn.tokens
	}
}

// RecordPrompt implements [lb.Store]. If the command fails, the prompt is recorded when it comes again.
func (s *Store) RecordPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string) {
	s.scopeOf(p.Scope).ledger.recordPrompt(now, p, addr)
}

// ForgetPrompt implements [lb.Store]. If the command fails, the record stays until it is too old.
func (s *Store) ForgetPrompt(now time.Duration, _ lb.LeaseID, p *lb.Plan, addr string, n int) {
	s.scopeOf(p.Scope).ledger.forgetPrompt(now, p, addr, n)
}

// Release implements [lb.Store].
func (s *Store) Release(now time.Duration, id lb.LeaseID) {
	l, ok := s.leases[id]
	if !ok {
		s.releasedEarly[id] = now + s.owner.ttl
		return
	}
	led := l.ledger
	led.removeLease(id)
	if l.state == pending {
		l.state = released
		led.cancel(now, l.reservation)
		return
	}
	again := l.state == waiting && l.waiter.again != nil
	l.state = released
	if again { // its reservation, sent again, may still run
		led.cancel(now, l.waiter.again)
		return
	}
	if l.waiter != nil && l.waiter.plan.HasBudget() { // it may have been charged already
		led.cancel(now, s.scopes[led.scope].composer.reservationOf(now, l.waiter))
		return
	}
	led.sendRelease(now, scriptRelease, led.releaseCommand(true, l.turn, id), id)
}
