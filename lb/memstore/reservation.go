package memstore

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// reservation is a reservation while its swap is tried.
type reservation struct {
	id      lb.LeaseID
	plan    *lb.Plan
	scope   *scope
	matches []Match

	grant    lb.Grant // unless it waits
	row      int
	tokens   int64
	waits    bool
	refused  error
	expected time.Duration // how long it is likely to wait, beside an error
	matched  []int         // of its candidates, while it waits
	told     bool          // its refusal is not stored: [budget.Tell] gives the time to ask again
	crowded  bool          // there is no place for a refusal by the cap of its caller's share
}

// expect notes which of the targets is likely to take the request first, and when, and whether it is told that.
func (r *reservation) expect(ts []budget.Target) {
	tokens := float64(r.plan.AddedTokens(0))
	i := budget.Earliest(ts, tokens)
	wait := ts[i].Until(tokens)
	if r.told = r.told || r.crowded && r.plan.Budget.OwnCaps && ts[i].Full; r.told {
		i, wait = budget.Tell(ts, tokens)
	}
	r.grant = lb.Grant{Index: i, Left: ts[i].Left()}
	r.expected = waitOf(wait)
}

// maxWait bounds how long a request is expected to wait, in ms.
const maxWait = 1 << 40

// waitOf returns ms as a duration, rounded up to whole ones.
func waitOf(ms float64) time.Duration {
	return time.Duration(math.Ceil(min(ms, maxWait))) * time.Millisecond
}
