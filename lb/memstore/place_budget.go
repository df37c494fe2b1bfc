package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// placeByBudget chooses an endpoint by its budget, and charges and counts the request there; or puts it into the queue.
func (s *Store) placeByBudget(now time.Duration, d *draft, r *reservation) error {
	charged, changed := s.chargeBudget(now, d, r, budget.MaxRefusals)
	switch {
	case charged:
		d.take(step{from: noRow, to: r.row, toTokens: r.tokens})
	case r.plan.Wait.Waits():
		return s.enqueue(now, d, r, nil)
	case changed:
		r.refused = lb.ErrOverBudget
	default:
		return lb.ErrOverBudget
	}
	return nil
}

// chargeBudget chooses an endpoint and charges it, or notes when the request is likely to be placed. What is set aside
// for those that wait and for the first n refusals is not for it. If it reports that limits have changed, the table has
// to be written. s.loads are those of the candidates.
func (s *Store) chargeBudget(now time.Duration, d *draft, r *reservation, n int) (charged, changed bool) {
	tokens := r.plan.AddedTokens(0)
	ts, last, changed := s.targets(now, d, r, n)
	i := budget.Choose(ts, last, float64(tokens))
	if i == budget.None {
		if r.expect(ts); changed {
			d.putStates(s.entries, ts)
		}
		return false, changed
	}
	d.Charge(now, s.entries, ts, i, float64(tokens))
	load := s.loads[i]
	load.Requests, load.Tokens = load.Requests+1, load.Tokens+tokens
	r.row, r.tokens, r.grant = s.entries[i].Row, tokens, lb.Grant{Index: i, Left: ts[i].Left(), Load: load}
	return true, changed
}

// targets returns the candidates of a plan with budgets: see draft.targets. What is set aside for those that wait is
// not theirs either.
func (s *Store) targets(now time.Duration, d *draft, r *reservation, n int) ([]budget.Target, int, bool) {
	var asides []queue.Aside
	if d.queue != nil {
		asides = d.queue.Asides(now, d)
	}
	s.entries = r.scope.entries(s.entries[:0], r.plan)
	ts, last, changed := d.targetsBut(now, s.entries, r.plan.Budget.AgeBonus, n)
	for _, a := range asides {
		for i := range ts {
			if s.entries[i].Row == a.Row {
				ts[i].Aside += a.Tokens
			}
		}
	}
	return ts, last, changed
}

// CountBudget implements [lb.LocalStore].
func (s *Store) CountBudget(now time.Duration, id lb.LeaseID, p *lb.Plan, index int) error {
	tokens, table := p.AddedTokens(0), tableName(p.Scope, p.Candidates[index].Addr)
	l := lease{tokens: tokens, charged: true}
	return s.countIn(now, id, table, l, func(d *draft, sc *scope) (row int, err error) {
		if d.table, err = sc.locate(d.table, p.List, &s.hashes); err != nil {
			return noRow, err
		}
		s.entries = sc.entries(s.entries[:0], p)
		ts, _ := d.Targets(now, s.entries, 0)
		d.Charge(now, s.entries, ts, index, float64(tokens))
		return sc.rows[index], nil
	})
}
