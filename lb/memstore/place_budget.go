package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// placeByBudget chooses an endpoint by its budget, and charges and counts the request there; or puts it into the queue.
func (pl *placer) placeByBudget(now time.Duration, d *draft, r *reservation) error {
	charged, changed := pl.chargeBudget(now, d, r, budget.MaxRefusals)
	switch {
	case charged:
		d.take(step{from: noRow, to: r.row, toTokens: r.tokens})
	case r.plan.Wait.Waits():
		return pl.enqueue(now, d, r, nil)
	case changed:
		r.refused = lb.ErrOverBudget
	default:
		return lb.ErrOverBudget
	}
	return nil
}

// chargeBudget chooses an endpoint and charges it, or notes when the request is likely to be placed. What is set aside
// for those that wait and for the first n refusals is not for it. If it reports a change beside no charge, the table
// has to be written. pl.loads are those of the candidates.
func (pl *placer) chargeBudget(now time.Duration, d *draft, r *reservation, n int) (charged, changed bool) {
	tokens := r.plan.AddedTokens(0)
	ts, last, changed := pl.targets(now, d, r, n)
	i := budget.Choose(ts, last, float64(tokens))
	if i == budget.None {
		r.expect(ts)
		if changed = changed || r.told; changed {
			d.putStates(pl.entries, ts)
		}
		return false, changed
	}
	d.Charge(now, pl.entries, ts, i, float64(tokens))
	load := pl.loads[i]
	load.Requests, load.Tokens = load.Requests+1, load.Tokens+tokens
	r.row, r.tokens, r.grant = pl.entries[i].Row, tokens, lb.Grant{Index: i, Left: ts[i].Left(), Load: load}
	return true, changed
}

// targets returns the candidates of a plan with budgets: see draft.targetsBut. What is set aside for those that wait is
// not theirs either.
func (pl *placer) targets(now time.Duration, d *draft, r *reservation, n int) ([]budget.Target, int, bool) {
	var asides []queue.Aside
	if d.queue != nil {
		asides = d.queue.Asides(now, d)
	}
	pl.entries = r.scope.entries(pl.entries[:0], r.plan)
	ts, last, changed := d.targetsBut(now, pl.entries, r.plan.Budget.AgeBonus, n)
	if r.plan.Budget.OwnCaps { // a target that is full is so by the share
		for i := range ts {
			ts[i].Ahead.Count += ts[i].Ahead.AtShare
		}
	}
	for _, a := range asides {
		for i := range ts {
			if pl.entries[i].Row == a.Row {
				ts[i].Aside += a.Tokens
			}
		}
	}
	return ts, last, changed
}

// chargeAt charges the request at the candidate of a plan with budgets, and returns the row of that.
func (pl *placer) chargeAt(now time.Duration, d *draft, sc *scope, p *lb.Plan, index int) (row int, err error) {
	if d.table, err = sc.locate(d.table, p.List, &pl.hashes); err != nil {
		return noRow, err
	}
	pl.entries = sc.entries(pl.entries[:0], p)
	ts, _ := d.Targets(now, pl.entries, 0)
	d.Charge(now, pl.entries, ts, index, float64(p.AddedTokens(0)))
	return sc.rows[index], nil
}
