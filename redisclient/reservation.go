package redisclient

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// reservation is a reservation without an answer yet.
type reservation struct {
	lb.List
	id        lb.LeaseID
	lease     *lease
	limits    []budget.Limits // of the candidates, nil without budgets
	script    *script
	args      int    // of the command
	cmd       []byte // complete from the beginning, since the plan's blocks belong to the caller
	list      *candidateList
	sentSeq   uint64 // of the store's sequence
	firstCall *call  // the first attempt; the second one keeps its deadline
	retried   bool
	waiter    *waiter // of a request that waits already, and is sent again because its ticket may be lost
	plan      lb.Plan // of a request that may wait
	sentAt    time.Duration
	done      func(lb.Grant, error)
}

// chained reports whether the reservation names the blocks of a prompt.
func (r *reservation) chained() bool { return r.script == scriptPrompt || r.script == scriptWaitPrompt }

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
	if err := s.cannotReserve(p); err != nil {
		done(lb.Grant{}, err)
		return
	}
	r := &reservation{id: id, List: p.List, limits: limitsOf(p), sentAt: now, done: done}
	if p.Wait.Waits() {
		r.plan = *p
		s.undecided++
	}
	r.lease = s.addLease(now, id, p.Scope, &lease{state: pending, tokens: countedTokens(p)})
	r.lease.reservation = r
	s.setCommand(now, r, p)
	s.send(now, r)
}

// countedTokens returns what the lease counts for if nothing of the prompt is cached.
func countedTokens(p *lb.Plan) int64 {
	if p.HasBudget() {
		return p.AddedTokens(0)
	}
	return clampTokens(p.Tokens)
}

// cannotReserve returns why a reservation is not sent, nil if it is.
func (s *Store) cannotReserve(p *lb.Plan) error {
	switch {
	case len(p.Candidates) == 0:
		return lb.ErrFull
	case len(p.Candidates) > maxCandidates:
		return lb.ErrNoRoom
	case s.client.breaker.open:
		return ErrBreakerOpen
	}
	return nil
}

// send sends the reservation. If Redis may not know its list of candidates, that is sent first. A tenant has none.
func (s *Store) send(now time.Duration, r *reservation) {
	sc := r.lease.scope
	if r.script != scriptSpendTenant {
		r.list = sc.list(r.List, r.limits, s.owner)
		r.list.used = true
		if !r.list.isKnown(now) {
			s.sendList(now, sc, r.list)
		}
	}
	s.seq++
	r.sentSeq = s.seq
	c := s.client.send(now, r.script, &sc.node, r.cmd, false, func(now time.Duration, v Value, err error) {
		s.handleReply(now, r, v, err)
	})
	if r.firstCall != nil && c != nil {
		c.deadline, c.postponed = r.firstCall.deadline, r.firstCall.postponed
	} else if r.firstCall == nil {
		r.firstCall = c
	}
}

// handleReply ends the reservation, or sends it once more if Redis did not know its list of candidates.
func (s *Store) handleReply(now time.Duration, r *reservation, v Value, err error) {
	reply, err := parseReservationReply(v, r, err)
	if r.lease.state != released && err == nil && reply.code == codeUnknownList && r.list != nil &&
		!r.retried {
		if r.list.sentSeq <= r.sentSeq { // else it was already sent again for another reservation
			r.lease.scope.forgetLists()
			s.assertAll(now, r.lease.scope, r.sentSeq) // which may be lost with it
		}
		r.retried = true
		s.send(now, r)
		return
	}
	if r.waiter == nil && r.plan.Wait.Waits() {
		s.undecided--
	}
	defer s.passOn(now, r.lease.scope, reply.grants)
	if r.waiter != nil {
		r.lease.scope.resending--
		defer s.sendNext(now, r.lease.scope)
	}
	switch {
	case r.lease.state == released:
		r.done(lb.Grant{}, lb.ErrReleased)
	case r.waiter != nil:
		s.answerAgain(now, r, reply, err)
	case err != nil:
		s.refuse(now, r, lb.Grant{}, err)
	case reply.code >= 0:
		s.grant(now, r, reply)
	case reply.code == codeWaits:
		s.await(r, reply)
	case reply.code == codeOverBudget:
		s.refuse(now, r, reply.grant, lb.ErrOverBudget)
	default:
		if reply.code == codeUnknownList {
			s.client.findMaster(now)
		}
		s.refuse(now, r, lb.Grant{Expected: reply.expected}, reply.err(r))
	}
}

// err returns why the reservation was refused.
func (reply reservationReply) err(r *reservation) error {
	switch {
	case reply.code == codeFull:
		return lb.ErrFull
	case reply.code == codeReleased:
		return lb.ErrReleased
	case reply.code == codeQueueFull:
		return lb.ErrQueueFull
	case reply.code == codeHopeless:
		return lb.ErrHopeless
	case r.list != nil && r.list.sendErr != nil:
		return r.list.sendErr
	}
	return ErrCandidatesLost
}

// grant ends a reservation that Redis granted.
func (s *Store) grant(now time.Duration, r *reservation, reply reservationReply) {
	if since := r.plan.Wait.Since; since > 0 { // it has waited elsewhere
		reply.grant.Waited = now - since
		reply.grant.Queued = true
	}
	r.lease.charged = r.limits != nil
	s.hold(r.lease, reply, r.Candidates)
	r.done(reply.grant, nil)
}

// hold makes a lease one that was granted.
func (s *Store) hold(l *lease, reply reservationReply, candidates []lb.Candidate) {
	s.seq++
	l.state, l.confirmedSeq, l.reservation, l.waiter = held, s.seq, nil, nil
	l.grant, l.tokens, l.addr = reply.grant, reply.tokens, candidates[reply.code].Addr
}

// refuse ends a reservation that failed. If Redis may have granted it all the same, or may do so later, it is taken
// back: see late.go.
func (s *Store) refuse(now time.Duration, r *reservation, g lb.Grant, err error) {
	sc := r.lease.scope
	sc.pagesExpireAt = 0 // the reservation may not have extended it
	s.removeLease(r.id)
	if mayHaveRun(err) {
		s.cancel(now, r)
	}
	r.done(g, err)
}

// The codes that reserve.lua returns in place of a candidate's index.
const (
	codeFull        = -1
	codeReleased    = -2
	codeUnknownList = -3
	codeWaits       = -4
	codeQueueFull   = -5
	codeHopeless    = -6
	codeOverBudget  = -7
)

// reservationReply is the parsed answer of reserve.lua.
type reservationReply struct {
	code   int64 // the index of the chosen candidate, or one of the codes above
	grant  lb.Grant
	tokens int64 // what the lease counts for

	grants   []byte   // that others were given: see lua/queue.lua
	rows     []byte   // beside codeWaits, of the candidates: see reserve.lua
	stamp    string   // beside codeWaits, of the queue
	place    lb.Place // beside codeWaits
	expected time.Duration
}

// parseReservationReply reads the answer to a reservation, unless err is set. It returns [ErrGarbage] for anything that
// reserve.lua cannot return.
func parseReservationReply(v Value, r *reservation, err error) (reply reservationReply, _ error) {
	var grants []byte
	if r.plan.Wait.Waits() && v.Kind == Array && len(v.Items) == 2 && v.Items[0].Kind == Bulk {
		v, grants = splitGrants(v, 1)
	}
	switch {
	case err != nil:
		return reply, err
	case v.Kind == Array && len(v.Items) == 1 && v.Items[0].Kind == Integer:
		if reply.code = v.Items[0].Int; reply.code < codeUnknownList || reply.code > codeFull {
			return reply, ErrGarbage
		}
		return reply, nil
	case v.Kind == Array && len(v.Items) == 2 && v.Items[0].Int == codeOverBudget && r.limits != nil:
		return parseOverBudget(v.Items[1].Str, r)
	case v.Kind == Array && len(v.Items) > 1 && v.Items[0].Kind == Integer && r.plan.Wait.Waits():
		return parseQueueReply(v)
	case v.Kind != Bulk:
		return reply, ErrGarbage
	}
	reply, ok := unpackGrant(v.Str, r)
	reply.grants = grants
	if !ok || int(reply.code) >= len(r.Candidates) || reply.grant.Load.Tokens < 0 || reply.grant.Cached > maxBlocks {
		return reply, ErrGarbage
	}
	return reply, nil
}

// unpackGrant reads the string that reserve.lua returns for a grant. It returns false if the string has another length.
func unpackGrant(b []byte, r *reservation) (reply reservationReply, ok bool) {
	in := wire.NewReader(b)
	index := in.Uint16()
	reply = reservationReply{code: int64(index), tokens: r.lease.tokens}
	reply.grant = lb.Grant{Index: int(index), Load: lb.Load{Requests: int64(in.Uint32()), Tokens: in.Int64()}}
	if r.chained() {
		reply.grant.Cached, reply.tokens = int(in.Byte()), int64(in.Uint32())
	}
	if r.limits != nil {
		reply.grant.Left = unpackLeft(&in)
	}
	return reply, in.OK() && in.Len() == 0
}

// parseQueueReply reads the answer to a reservation that waits, or that may not.
func parseQueueReply(v Value) (reply reservationReply, _ error) {
	size := 2
	if reply.code = v.Items[0].Int; reply.code == codeWaits {
		size = 3
	}
	v, reply.grants = splitGrants(v, size)
	items := v.Items
	switch {
	case len(items) != size:
	case reply.code == codeWaits && len(items[1].Str)%4 == 0 && len(items[2].Str) == 8+10:
		in := wire.NewReader(items[2].Str)
		reply.rows, reply.stamp = slices.Clone(items[1].Str), string(in.Take(8))
		reply.place = lb.Place{Came: in.Uint(6), Number: in.Uint32()}
		return reply, nil
	case (reply.code == codeQueueFull || reply.code == codeHopeless) && items[1].Int >= 0:
		reply.expected = milliseconds(items[1].Int)
		return reply, nil
	}
	return reply, ErrGarbage
}

// maxExpected bounds the time in ms in which a request is likely to be placed.
const maxExpected = 1 << 40

func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, maxExpected)) * time.Millisecond
}
