package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/queue"
)

// millis returns a time as package budget has it.
func millis(d time.Duration) float64 { return float64(d / time.Millisecond) }

// openBudgets returns the budgets of the table, to be changed and written with it.
func (d *draft) openBudgets() *budgets {
	if d.budget == nil {
		d.budget = &d.space
		d.budget.read(d.table)
	}
	return d.budget
}

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

// targetsBut returns endpoints with budgets as they are now, which of them was served last, -1 if none was lately, and
// whether a limit has changed. What is set aside for the first n refusals is not theirs. They are valid until the next
// call.
func (d *draft) targetsBut(now time.Duration, entries []queue.Entry, bonus float64, n int) (
	ts []budget.Target, last int, changed bool,
) {
	b, at := d.openBudgets(), millis(now)
	b.refusals = b.refusals.Expire(at)
	n = min(n, len(b.refusals))
	ts, last = d.budgetRoom[:0], -1
	for i := range entries {
		e := &entries[i]
		c := lb.Candidate{Cap: e.Cap, TokenCap: e.TokenCap}
		ts = append(ts, budget.Target{Limits: e.Limits, State: b.state(e.Row), Full: c.IsFull(d.loadOf(e.Row))})
		t := &ts[i]
		if e.Row == b.last && !t.IsUnused(at) {
			last = i
		}
		changed = t.Apply(at, t.Limits) || changed
		t.Aside, t.Ahead = b.refusals.Aside(at, n, e.Row, t.TokenRate, bonus)
	}
	d.budgetRoom = ts
	return ts, last, changed
}

// Targets implements [queue.Loads].
func (d *draft) Targets(now time.Duration, entries []queue.Entry, bonus float64) (ts []budget.Target, last int) {
	ts, last, _ = d.targetsBut(now, entries, bonus, budget.MaxRefusals)
	return ts, last
}

// Charge implements [queue.Loads].
func (d *draft) Charge(now time.Duration, entries []queue.Entry, ts []budget.Target, i int, tokens float64) {
	budget.Charge(ts, i, millis(now), tokens)
	d.putStates(entries, ts)
	d.openBudgets().last = entries[i].Row
}

// putStates writes the targets to their rows.
func (d *draft) putStates(entries []queue.Entry, ts []budget.Target) {
	for i := range entries {
		d.openBudgets().put(entries[i].Row, ts[i].State)
	}
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

// correct makes a correction. It reports whether there is a budget to correct.
func (d *draft) correct(now time.Duration, c correction) bool {
	return d.changeState(d.find(c.hash), func(s *budget.State) { s.Correct(millis(now), c.tokens, c.requests) })
}

// changeState changes the budget of the row. It reports whether there is one.
func (d *draft) changeState(row int, change func(*budget.State)) bool {
	if !d.isBudgeted(row) {
		return false
	}
	s := d.openBudgets().state(row)
	change(&s)
	d.openBudgets().put(row, s)
	return true
}

// isBudgeted reports whether something is known of the budget of the row.
func (d *draft) isBudgeted(row int) bool {
	if d.budget == nil && !d.hasBudgets() {
		return false
	}
	return d.openBudgets().state(row) != (budget.State{})
}

// Settle implements [lb.Store].
func (s *Store) Settle(now time.Duration, id lb.LeaseID, addr string, tokens, requests int64) {
	l := s.leases[id]
	if !l.charged || tokens == 0 && requests == 0 {
		return
	}
	c, sc := correction{lb.EndpointHash(addr), float64(tokens), float64(requests)}, l.scope
	if requests <= 0 && s.defers(sc) && len(sc.corrections) < maxPending {
		sc.corrections = append(sc.corrections, c)
		return
	}
	made, err := s.changeBudget(now, sc, func(d *draft) bool { return d.correct(now, c) })
	switch {
	case err != nil && len(sc.corrections) < maxPending: // the next swap tries again
		sc.corrections = append(sc.corrections, c)
	case requests > 0 && !made: // no budget was charged, so none is to be corrected later
		s.uncharge(id)
	}
}

// uncharge notes that a lease, if there still is one, is not charged in a budget.
func (s *Store) uncharge(id lb.LeaseID) {
	if l, ok := s.leases[id]; ok {
		l.charged = false
		s.leases[id] = l
	}
}

// Restrict implements [lb.Store].
func (s *Store) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	sc, _ := s.budgeted(tableName(scope, addr))
	if sc == nil {
		return
	}
	hash := lb.EndpointHash(addr)
	_, _ = s.changeBudget(now, sc, func(d *draft) bool { // if it fails, the next answer says the same again
		return d.changeState(d.find(hash), func(s *budget.State) { s.Restrict(millis(now), &r) })
	})
}

// changeBudget writes the table if change reports that it has changed a budget, and returns that.
func (s *Store) changeBudget(now time.Duration, sc *scope, change func(*draft) bool) (changed bool, err error) {
	err = s.swap(now, sc, func(d *draft) error {
		if changed = change(d); !changed {
			return errUnchanged
		}
		return nil
	})
	s.answerWaits(now)
	return changed, err
}

// budgeted returns what this owner knows of the scope, nil if that has no budgets.
func (s *Store) budgeted(name string) (*scope, error) {
	if sc, ok := s.scopes[name]; ok && sc.slot >= 0 {
		return sc, nil
	}
	if t, err := s.lookup(name); err != nil || t == nil || !t.hasBudgets() {
		return nil, err
	}
	return s.scope(name), nil
}

// tidyBudgets forgets what need not be remembered any more, and reports whether there was anything.
func (d *draft) tidyBudgets(now time.Duration) (tidied bool) {
	if !d.hasBudgets() {
		return false
	}
	b, at := d.openBudgets(), millis(now)
	tidied = d.expireTasks(now)
	for row := range len(b.states) / stateSize {
		s := b.state(row)
		if s != (budget.State{}) && d.loadOf(row) == (lb.Load{}) && s.IsUnused(at) {
			b.put(row, budget.State{})
			tidied = true
		}
	}
	refusals := len(b.refusals)
	b.refusals = b.refusals.Expire(at)
	tidied = tidied || len(b.refusals) < refusals
	if !tidied {
		d.budget = nil
	}
	return tidied
}
