package memstore

import (
	"math"
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

// expect notes which of the targets is likely to take the request first, and when.
func (r *reservation) expect(ts []budget.Target) {
	tokens := float64(r.plan.AddedTokens(0))
	i := budget.Earliest(ts, tokens)
	r.grant = lb.Grant{Index: i, Left: ts[i].Left()}
	r.expected = waitOf(ts[i].Until(tokens))
}

// targets returns the candidates of a plan with budgets: see draft.targets. What is set aside for those that wait is
// not theirs either.
func (s *Store) targets(now time.Duration, d *draft, r *reservation, n int) ([]budget.Target, int, bool) {
	s.entries = r.scope.entries(s.entries[:0], r.plan)
	ts, last, changed := d.targets(now, s.entries, r.plan.Budget.AgeBonus, n)
	if d.queue == nil {
		return ts, last, changed
	}
	for _, a := range d.queue.Asides(now, d) {
		for i := range ts {
			if s.entries[i].Row == a.Row {
				ts[i].Aside += a.Tokens
			}
		}
	}
	return ts, last, changed
}

// targets returns endpoints with budgets as they are now, which of them was served last, -1 if none was lately, and
// whether a limit has changed. What is set aside for the first n refusals is not theirs.
func (d *draft) targets(now time.Duration, entries []queue.Entry, bonus float64, n int) (
	ts []budget.Target, last int, changed bool,
) {
	b, at := d.openBudgets(), millis(now)
	b.refusals = b.refusals.Expire(at)
	n = min(n, len(b.refusals))
	ts, last = make([]budget.Target, len(entries)), -1
	for i := range entries {
		e, t := &entries[i], &ts[i]
		c := lb.Candidate{Cap: e.Cap, TokenCap: e.TokenCap}
		t.Limits, t.State, t.Full = e.Limits, *b.state(e.Row), c.IsFull(d.load(e.Row))
		if e.Row == b.last && !t.IsUnused(at) {
			last = i
		}
		changed = t.Apply(at, t.Limits) || changed
		t.Aside = b.refusals.Aside(at, n, e.Row, t.TokenRate, bonus)
	}
	return ts, last, changed
}

// Targets implements [queue.Loads].
func (d *draft) Targets(now time.Duration, entries []queue.Entry, bonus float64) (ts []budget.Target, last int) {
	ts, last, _ = d.targets(now, entries, bonus, budget.MaxRefusals)
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
		*d.openBudgets().state(entries[i].Row) = ts[i].State
	}
}

// waitOf returns ms as a duration, rounded up to whole ones.
func waitOf(ms float64) time.Duration { return time.Duration(math.Ceil(ms)) * time.Millisecond }

// correction is a change of the budget of an endpoint by what a request has used beyond its estimate.
type correction struct {
	hash  uint64 // of the endpoint
	delta float64
}

// correct makes a correction. It reports whether there is a budget to correct.
func (d *draft) correct(now time.Duration, c correction) bool {
	s := d.stateOf(c.hash)
	if s != nil {
		s.Settle(millis(now), c.delta)
	}
	return s != nil
}

// stateOf returns the state of the endpoint, nil if nothing is known of it.
func (d *draft) stateOf(hash uint64) *budget.State {
	row := d.find(hash)
	if !d.isBudgeted(row) {
		return nil
	}
	return d.openBudgets().state(row)
}

// isBudgeted reports whether something is known of the budget of the row.
func (d *draft) isBudgeted(row int) bool {
	if d.budget == nil && !d.hasBudgets() {
		return false
	}
	b := d.openBudgets()
	return row < len(b.states) && b.states[row] != (budget.State{})
}

// Settle implements [lb.Store].
func (s *Store) Settle(now time.Duration, scope, addr string, delta int64) {
	sc := s.budgeted(scope)
	if sc == nil || delta == 0 {
		return
	}
	c := correction{lb.EndpointHash(addr), float64(delta)}
	if s.defers(sc) && len(sc.corrections) < maxPending {
		sc.corrections = append(sc.corrections, c)
		return
	}
	s.changeBudget(now, sc, func(d *draft) bool { return d.correct(now, c) })
}

// Restrict implements [lb.Store].
func (s *Store) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	sc, hash := s.budgeted(scope), lb.EndpointHash(addr)
	if sc == nil {
		return
	}
	s.changeBudget(now, sc, func(d *draft) bool {
		state := d.stateOf(hash)
		if state != nil {
			state.Restrict(millis(now), &r)
		}
		return state != nil
	})
}

// changeBudget writes the table if change reports that it has changed a budget. What cannot be written is lost: then
// the estimate stays.
func (s *Store) changeBudget(now time.Duration, sc *scope, change func(*draft) bool) {
	_ = s.swap(now, sc, func(d *draft) error {
		if !change(d) {
			return errUnchanged
		}
		return nil
	})
	s.answerWaits(now)
}

// budgeted returns what this owner knows of the scope, nil if that has no budgets.
func (s *Store) budgeted(name string) *scope {
	if sc, ok := s.scopes[name]; ok && sc.slot >= 0 {
		return sc
	}
	if t, err := s.lookup(name); err != nil || t == nil || !t.hasBudgets() {
		return nil
	}
	return s.scope(name)
}

// tidyBudgets forgets what need not be remembered any more, and reports whether there was anything.
func (d *draft) tidyBudgets(now time.Duration) (tidied bool) {
	if !d.hasBudgets() {
		return false
	}
	b, at := d.openBudgets(), millis(now)
	for row := range b.states {
		s := &b.states[row]
		if *s != (budget.State{}) && d.load(row) == (lb.Load{}) && s.IsUnused(at) {
			*s, tidied = budget.State{}, true
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

// Schedule implements [lb.TaskStore].
func (*Store) Schedule(_ time.Duration, _ uint64, _ time.Duration, _ *lb.Plan, done func(lb.Task, error)) {
	done(lb.Task{}, lb.ErrUnready)
}

// Complete implements [lb.TaskStore].
func (*Store) Complete(_ time.Duration, _ string, _ lb.TaskID, _ int64, done func(lb.TaskEnd, error)) {
	done(lb.TaskUnknown, lb.ErrUnready)
}

// Renew implements [lb.TaskStore].
func (*Store) Renew(_ time.Duration, _ string, _ lb.TaskID, _ time.Duration, done func(bool, error)) {
	done(false, lb.ErrUnready)
}
