package redisclient

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// reservations sends those of one scope, and handles what Redis answers.
type reservations struct {
	ledger *ledger
	lists  *candidateLists
	pages  *pages
	room   *waitingRoom
}

// send sends the reservation. If Redis may not know its list of candidates, that is sent first. A tenant has none.
func (rs *reservations) send(now time.Duration, r *reservation) {
	led := rs.ledger
	if r.script != scriptSpendTenant {
		r.list = rs.lists.use(now, r.List, r.limits)
	}
	led.seq++
	r.sentSeq = led.seq
	c := led.client.send(now, r.script, &led.node, r.cmd, false, func(now time.Duration, v Value, err error) {
		rs.handleReply(now, r, v, err)
	})
	if r.firstCall != nil && c != nil {
		c.deadline, c.postponed = r.firstCall.deadline, r.firstCall.postponed
	} else if r.firstCall == nil {
		r.firstCall = c
	}
}

// handleReply ends the reservation, or sends it once more if Redis did not know its list of candidates.
func (rs *reservations) handleReply(now time.Duration, r *reservation, v Value, err error) {
	led := rs.ledger
	reply, err := parseReservationReply(v, r, err)
	if r.lease.state != released && err == nil && reply.code == codeUnknownList && r.list != nil &&
		!r.retried {
		if r.list.sentSeq <= r.sentSeq { // else it was already sent again for another reservation
			rs.lists.forget()
			led.assertAll(now, r.sentSeq) // which may be lost with it
		}
		r.retried = true
		rs.send(now, r)
		return
	}
	if r.waiter == nil && r.plan.Wait.Waits() {
		led.undecided--
	}
	defer led.passOn(now, reply.grants)
	if r.waiter != nil {
		rs.room.resending--
		defer rs.room.sendNext(now)
	}
	switch {
	case r.lease.state == released:
		r.done(lb.Grant{}, lb.ErrReleased)
	case r.waiter != nil:
		rs.room.answerAgain(now, r, reply, err)
	case err != nil:
		rs.refuse(now, r, lb.Grant{}, err)
	case reply.code >= 0:
		rs.grant(now, r, reply)
	case reply.code == codeWaits:
		rs.room.await(r, reply)
	case reply.code == codeOverBudget:
		rs.refuse(now, r, reply.grant, lb.ErrOverBudget)
	default:
		why := reply.err(r)
		if errors.Is(why, ErrCandidatesLost) {
			led.client.findMaster(now)
		}
		rs.refuse(now, r, lb.Grant{Expected: reply.expected}, why)
	}
}

// grant ends a reservation that Redis granted.
func (rs *reservations) grant(now time.Duration, r *reservation, reply reservationReply) {
	if since := r.plan.Wait.Since; since > 0 { // it has waited elsewhere
		reply.grant.Waited = now - since
		reply.grant.Queued = true
	}
	r.lease.charged = r.limits != nil
	rs.ledger.hold(r.lease, reply, r.Candidates)
	r.done(reply.grant, nil)
}

// refuse ends a reservation that failed. If Redis may have granted it all the same, or may do so later, it is taken
// back: see late.go.
func (rs *reservations) refuse(now time.Duration, r *reservation, g lb.Grant, err error) {
	rs.pages.expireAt = 0 // the reservation may not have extended it
	rs.ledger.removeLease(r.id)
	if mayHaveRun(err) {
		rs.ledger.cancel(now, r)
	}
	r.done(g, err)
}
