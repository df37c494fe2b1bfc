package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// expireTasks abandons the tasks that were not renewed in time, and forgets those that ended long ago. It reports
// whether there were any.
func (d *draft) expireTasks(now time.Duration) (changed bool) {
	if d.budget == nil && !d.hasBudgets() {
		return false
	}
	b, at := d.openBudgets(), taskMillis(now)
	for i := b.tasks.n() - 1; i >= 0; i-- {
		t := b.tasks.at(i)
		switch {
		case t.until() > at+t.ttl(): // the clock was set back
			t.renew(at)
		case at < t.until():
			continue
		case t.lives():
			d.abandon(i, now)
		default:
			b.tasks = b.tasks.remove(i)
		}
		changed = true
	}
	return changed
}

// abandon ends the i-th task, which lives, and gives back what it counted and was charged.
func (d *draft) abandon(i int, now time.Duration) {
	t := d.openBudgets().tasks.at(i)
	d.refund(t.row(), t.tokens())
	d.endTask(i, now, lb.TaskAbandoned)
}

// complete ends the i-th task with what is said of it, which counts once. A task that was abandoned was given back all
// that it was charged: now it is charged what it has used.
func (d *draft) complete(i int, now time.Duration, use lb.TaskUse) (end lb.TaskEnd, changed bool) {
	t := d.openBudgets().tasks.at(i)
	hash := t.hash()
	switch t.end() {
	case lb.TaskUnknown:
		if use.Tokens >= 0 {
			d.correct(now, correction{hash: hash, tokens: float64(use.Tokens - t.tokens())})
		}
		d.endTask(i, now, lb.TaskCompleted)
		end, changed = lb.TaskCompleted, true
	case lb.TaskCompleted:
		return lb.TaskEnded, false
	case lb.TaskAbandoned:
		if end = lb.TaskAbandoned; use.Tokens >= 0 {
			t[50] = taskCharged
			changed = true
			d.correct(now, correction{hash: hash, tokens: float64(use.Tokens), requests: 1})
		}
	default:
		return lb.TaskAbandoned, false
	}
	if use.Closed > 0 {
		r := use.Restriction()
		changed = d.changeState(d.find(hash), func(s *budget.State) { s.Restrict(millis(now), &r) }) || changed
	}
	return end, changed
}

// endTask notes that the i-th task has ended, and counts it no more.
func (d *draft) endTask(i int, now time.Duration, end lb.TaskEnd) {
	b := d.openBudgets()
	t := append(task(nil), b.tasks.at(i)...)
	if t.row() < d.rows() {
		d.addLoad(t.row(), lb.Load{Requests: -1, Tokens: -t.tokens()})
	}
	t[50] = uint8(end)
	t.renew(taskMillis(now))
	b.tasks = append(b.tasks.remove(i), t...)
	if n, first := b.tasks.ended(); n > maxEnded {
		b.tasks = b.tasks.remove(first)
	}
}

// addTasks adds the tasks that live to rows.
func (d *draft) addTasks(rows []byte) {
	if d.budget == nil && !d.hasBudgets() {
		return
	}
	ts := d.openBudgets().tasks
	for i := range ts.n() {
		if t := ts.at(i); t.lives() && t.row() < len(rows)/rowSize {
			addAt(rows, t.row(), lb.Load{Requests: 1, Tokens: t.tokens()})
		}
	}
}
