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
