package redisclient

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// What happens when Redis answers late
//
//  1. Reserve sends the reservation with a deadline, Options.Timeout from now (client.send). The VM sets its timer to
//     the deadline (ticks.wakeAt in plugin/vm). If the tick comes late, Postpone moves each deadline once, because
//     the VM could not read answers in between (ticks.late). An answer is used if it is read before Expire finds the
//     call past its deadline.
//  2. Expire fails the call with ErrTimeout (client.expire), and refuse ends the reservation. lb.FallbackStore
//     reserves in the embedded store, and has Adopt count that lease under another id (adoptedID): under its own id
//     the late reservation may still be granted.
//  3. cancel takes the reservation back. If it has run, its lease is released (lua/release.lua); with a prompt also the
//     record of that is deleted (lua/cancel.lua), with a budget what that was charged is given back (lua/refund.lua,
//     for tenants lua/refund_tenant.lua). If it has not run yet, a tombstone is left, which makes lua/begin.lua refuse
//     the reservation when it runs.
//  4. The late answer itself is dropped (client.sendTo; on stock Envoy already by Pipeline, whose round trips have the
//     same limit). The circuit breaker has counted a failure at the deadline. When that opens the breaker, all pending
//     calls but heartbeats fail in the same way (client.failPending).
//  5. If the cancellation is lost, or is not sent because the breaker is open, the next heartbeat finds a lease that
//     the owner does not hold, and releases it (heartbeats.releaseUnknown): with a budget by another cancellation,
//     which gives back what that was charged. The record of the prompt stays until it expires.
//     Tombstones that no reservation has consumed are deleted in the same way after tombstoneTTL.
//
// Release of a reservation without an answer, because its client has left, does the same from step 3 on.

// tombstoneTTL is how long the owner expects a tombstone of its own in Redis: a release that waits for a reservation
// that may still run.
const tombstoneTTL = 30 * time.Second

// mayHaveRun reports whether Redis may have run, or may still run, a reservation that failed with the error.
func mayHaveRun(err error) bool {
	_, refused := err.(*ReplyError)
	return !refused && !errors.Is(err, lb.ErrFull) && !errors.Is(err, lb.ErrOverBudget) &&
		!errors.Is(err, lb.ErrReleased) &&
		!errors.Is(err, ErrCandidatesLost) && !errors.Is(err, ErrBreakerOpen)
}

// cancel takes back a reservation without an answer, whether it has run already or will run later. If its endpoint has
// got another request for the prompt since, the record is deleted all the same; the next request records it again.
func (led *ledger) cancel(now time.Duration, r *reservation) {
	led.tombstones[r.id] = now + tombstoneTTL
	script, cmd := scriptRelease, led.releaseCommand(false, turn{}, r.id)
	switch {
	case r.chained():
		script, cmd = scriptCancel, r.cancelCommand(scriptCancel)
	case r.script == scriptSpend:
		script, cmd = scriptRefund, r.cancelCommand(scriptRefund)
		led.unrefunded[r.id] = r
	case r.script == scriptSpendTenant:
		script, cmd = scriptRefundTenant, r.cancelCommand(scriptRefundTenant)
		led.unrefunded[r.id] = r
	}
	led.sendRelease(now, script, cmd, r.id)
}

// cancelCommand returns the command that takes back a reservation with a prompt, or with budgets. It has the keys and
// arguments of the reservation's command, and one more.
func (r *reservation) cancelCommand(by *script) []byte {
	keys := 4
	if by == scriptRefundTenant {
		keys = tenantKeys
	}
	begin := len(r.script.command(nil, keys, r.args))
	b := append(by.command(nil, keys, r.args+1), r.cmd[begin:]...)
	return appendInt(b, 2*dataTTL.Milliseconds())
}
