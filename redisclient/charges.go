package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// Settle implements [lb.Store]. What fails is not sent again, as Redis may have made the correction. So of what Redis
// has not confirmed to have charged nothing is given back.
func (s *Store) Settle(now time.Duration, id lb.LeaseID, addr string, tokens, requests int64) {
	l, ok := s.leases[id]
	if !ok || !l.charged {
		if ok {
			l.moves++ // an answer to the latest move is too late: this correction should have followed it
		}
		return
	}
	more := max(tokens, 0)
	less := min(max(-tokens, 0), l.unconfirmed)
	tokens, l.unconfirmed = tokens+less, l.unconfirmed+more-less
	if tokens == 0 && requests == 0 {
		return
	}
	sp := scriptSettle
	if l.ledger.ofTenants {
		sp = scriptSettleTenant
	}
	b := appendArg(l.ledger.appendBudgetKey(sp.command(nil, 1, 3)), addr)
	b = appendInt(appendInt(b, tokens), requests)
	l.charged = requests <= 0 // until Redis has said that it has charged another endpoint
	moves := l.moves
	l.ledger.sendBackground(now, sp, b, func(_ time.Duration, v Value, err error) {
		if err == nil && v.Int == 1 {
			l.charged = l.charged || requests > 0 && l.moves == moves
			l.unconfirmed = max(0, l.unconfirmed-more)
		}
	})
}

// wholeMillis returns a duration in ms, rounded up as in package budget.
func wholeMillis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// number returns 1 for true.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Restrict implements [lb.Store]. If the command fails, the next answer of the endpoint says the same again.
func (s *Store) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	at, sp := &s.scopeOf(scope).ledger.place, scriptRestrict
	if at.ofTenants {
		sp = scriptRestrictTenant
	}
	said := wire.Writer(nil).Float64(r.Tokens).Float64(r.Requests)
	for _, d := range []time.Duration{r.TokensReset, r.RequestsReset, r.RetryAfter} {
		said = said.Float64(float64(wholeMillis(d)))
	}
	said = said.Float64(r.Longest()).Float64(number(r.Reopen))
	b := appendArg(appendArg(at.appendBudgetKey(sp.command(nil, 1, 2)), addr), said)
	at.sendBackground(now, sp, b, func(time.Duration, Value, error) {})
}
