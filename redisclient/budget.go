package redisclient

import (
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// limitsOf returns the budgets of a plan's candidates, nil if it has none.
func limitsOf(p *lb.Plan) []budget.Limits {
	if !p.HasBudget() {
		return nil
	}
	return p.Budget.Limits
}

// packBudgets returns the budgets of the candidates in the format of candidates.lua, nothing if there are none.
func packBudgets(cs []lb.Candidate, limits []budget.Limits) (out wire.Writer) {
	if limits == nil {
		return nil
	}
	for i := range limits {
		out = appendLimits(out, &limits[i], &cs[i])
	}
	for i := range cs {
		out = append(append(out, cs[i].Addr...), '\n')
	}
	return out
}

// appendLimits appends the limits and caps of one candidate.
func appendLimits(out wire.Writer, l *budget.Limits, c *lb.Candidate) wire.Writer {
	return out.Float64(l.Weight).Float64(max(l.Tokens, 0)).Float64(max(l.Requests, 0)).
		Float64(requestCap(c)).Float64(tokenCap(c))
}

// setBudgetCommand sets the command of a reservation with budgets. It looks no prompt up: budgets decide.
func (s *Store) setBudgetCommand(now time.Duration, r *reservation, l *candidateList, p *lb.Plan) {
	sc := r.lease.scope
	r.script, r.args = scriptSpend, 2
	if p.Wait.Waits() {
		r.args = 4
	}
	b := r.script.command(make([]byte, 0, 384), 4, r.args)
	b = appendID(appendArg(sc.appendReserveKeys(b, l), sc.keys.Budget), r.id)
	var room [16]byte
	r.cmd = appendArg(b, wire.Writer(room[:0]).Float64(float64(p.AddedTokens(0))).Float64(max(p.Budget.AgeBonus, 0)))
	if p.Wait.Waits() {
		r.cmd = appendWait(appendArg(r.cmd, ""), now, s.silence(sc), l, &p.Wait)
	}
}

// unpackLeft reads what is left of a budget.
func unpackLeft(in *wire.Reader[[]byte]) budget.Left {
	return budget.Left{Tokens: in.Float64(), Requests: in.Float64()}
}

// parseOverBudget reads the answer to a reservation that no candidate can take.
func parseOverBudget(b []byte, r *reservation) (reply reservationReply, _ error) {
	in := wire.NewReader(b)
	ms, index := in.Float64(), int(in.Uint16())
	reply = reservationReply{code: codeOverBudget, grant: lb.Grant{Index: index, Left: unpackLeft(&in)}}
	if !in.OK() || in.Len() > 0 || index >= len(r.Candidates) || !(ms >= 0) {
		return reply, ErrGarbage
	}
	reply.grant.Expected = milliseconds(int64(min(ms, maxExpected)))
	return reply, nil
}

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
	if l.scope.ofTenants {
		sp = scriptSettleTenant
	}
	b := appendArg(l.scope.appendBudgetKey(sp.command(nil, 1, 3)), addr)
	b = appendInt(appendInt(b, tokens), requests)
	l.charged = requests <= 0 // until Redis has said that it has charged another endpoint
	moves := l.moves
	s.sendBackground(now, sp, l.scope, b, func(_ time.Duration, v Value, err error) {
		if err == nil && v.Int == 1 {
			l.charged = l.charged || requests > 0 && l.moves == moves
			l.unconfirmed = max(0, l.unconfirmed-more)
		}
	})
}

// Restrict implements [lb.Store]. If the command fails, the next answer of the endpoint says the same again.
func (s *Store) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	sc, sp := s.scopeOf(scope), scriptRestrict
	if sc.ofTenants {
		sp = scriptRestrictTenant
	}
	said := wire.Writer(nil).Float64(r.Tokens).Float64(r.Requests)
	for _, d := range []time.Duration{r.TokensReset, r.RequestsReset, r.RetryAfter} {
		said = said.Float64(float64((d + time.Millisecond - 1) / time.Millisecond))
	}
	b := appendArg(appendArg(sc.appendBudgetKey(sp.command(nil, 1, 2)), addr), said)
	s.sendBackground(now, sp, sc, b, func(time.Duration, Value, error) {})
}
