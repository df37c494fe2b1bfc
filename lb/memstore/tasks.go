package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Schedule implements [lb.TaskStore].
func (s *Store) Schedule(now time.Duration, key uint64, ttl time.Duration, p *lb.Plan, done func(lb.Task, error)) {
	if len(p.Candidates) == 0 || !p.HasBudget() {
		done(lb.Task{}, lb.ErrOverBudget)
		return
	}
	s.ledger.reserved++
	s.tasks++
	t := scheduling{
		reservation: reservation{plan: p, scope: s.ledger.scope(p.Scope)}, key: key, ttl: ttl,
		task: lb.Task{ID: lb.NewTaskID(p.Random, s.self.owner, s.tasks, p.Budget.Call)},
	}
	err := s.ledger.swap(now, t.scope, func(d *draft) error { return s.placer.placeTask(now, d, &t) })
	if err != nil {
		s.ledger.discard(t.scope)
	} else {
		err = t.refused
	}
	t.grant.Expected = t.expected
	t.task.Grant = t.grant
	done(t.task, err)
	s.requests.answer(now)
}

// Complete implements [lb.TaskStore].
func (s *Store) Complete(now time.Duration, scope string, id lb.TaskID, use lb.TaskUse, done func(lb.TaskEnd, error)) {
	end := lb.TaskUnknown
	err := s.changeTask(now, scope, id, func(d *draft, i int) (changed bool) {
		if end = lb.TaskUnknown; i < 0 {
			return false
		}
		end, changed = d.complete(i, now, use)
		return changed
	})
	if err != nil {
		end = lb.TaskUnknown
	}
	done(end, err)
	s.requests.answer(now)
}

// Renew implements [lb.TaskStore].
func (s *Store) Renew(
	now time.Duration, scope string, id lb.TaskID, ttl time.Duration, done func(found bool, err error),
) {
	found := false
	err := s.changeTask(now, scope, id, func(d *draft, i int) bool {
		if found = i >= 0 && d.budget.tasks.at(i).lives(); found {
			t := d.budget.tasks.at(i)
			t.setTTL(ttl)
			t.renew(taskMillis(now))
		}
		return found
	})
	done(found && err == nil, err)
	s.requests.answer(now)
}

// changeTask calls change with the number of the task, -1 for none, and writes what that reports to have changed. It
// may be called several times.
func (s *Store) changeTask(now time.Duration, scope string, id lb.TaskID, change func(d *draft, i int) bool) error {
	sc, err := s.ledger.budgeted(scope)
	if sc == nil {
		return err
	}
	return s.ledger.swap(now, sc, func(d *draft) error {
		expired := d.expireTasks(now)
		if changed := change(d, d.openBudgets().tasks.find(id)); !changed && !expired {
			return errUnchanged
		}
		return nil
	})
}
