package placement

import (
	"cmp"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// Refusal is what the client of a request that is not placed is told.
type Refusal struct {
	RetryAfter time.Duration // 0 to not tell
	OfBudget   bool          // no budget has room for it
	Wait       time.Duration // until the first one of them is likely to have room
	Limits     budget.Limits // of that one
	Left       budget.Left   // of these
}

// NoteRefused counts a request as refused, and returns what its client is told. expected is the time in which a request
// of its class is likely to be placed, 0 if the store has not told: then it is that of all who wait.
func (pl *Placement) NoteRefused(why lb.Reason, expected time.Duration) (r Refusal) {
	pl.Wait.countRefused(why)
	if pl.Wait.Class != nil {
		expected = pl.Wait.expected(pl.Shared.Clock(), expected)
	}
	r.RetryAfter = pl.retryAfter(expected)
	if !isBudget(why) {
		return r
	}
	r.OfBudget, r.Wait = true, pl.Shared.WaitFor(cmp.Or(expected, pl.Config.Overload.RetryAfter, time.Second))
	if r.RetryAfter > 0 {
		r.RetryAfter = r.Wait
	}
	plan, grant := &pl.Lease.Reservation.Plan, &pl.Lease.Reservation.Grant
	if why == lb.ReasonTenantOverBudget {
		plan, grant = pl.Lease.Budget.tenant.plan, &pl.Lease.Budget.tenant.Grant
	}
	r.Limits, r.Left = plan.Budget.Limits[grant.Index], grant.Left
	return r
}

// retryAfter returns after which time the client may try again, 0 to not tell.
func (b *basis) retryAfter(expected time.Duration) time.Duration {
	configured := b.Config.Overload.RetryAfter
	if configured == 0 || expected <= 0 {
		return configured
	}
	return max(time.Nanosecond, b.Shared.Varied(expected))
}
