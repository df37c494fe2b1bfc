package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
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
		task: lb.Task{ID: lb.NewTaskID(p.Random, s.self.owner, s.tasks)},
	}
	err := s.ledger.swap(now, t.scope, func(d *draft) error { return s.placeTask(now, d, &t) })
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

// scheduling is a task while its swap is tried.
type scheduling struct {
	reservation
	key  uint64
	ttl  time.Duration
	task lb.Task
}

// placeTask chooses an endpoint for the task, and charges and counts it there.
func (s *Store) placeTask(now time.Duration, d *draft, t *scheduling) (err error) {
	sc, p := t.scope, t.plan
	t.refused, t.grant, t.expected = nil, lb.Grant{}, 0 // an earlier try may have set them
	if d.table, err = sc.locate(d.table, p.List, &s.hashes); err != nil {
		return err
	}
	b := d.openBudgets()
	expired := d.expireTasks(now)
	if s.again(now, d, t) {
		return nil
	}
	s.readLoads(d, sc)
	n := budget.MaxRefusals
	if t.key != 0 {
		n = b.refusals.Expire(millis(now)).Find(t.key)
	}
	charged, changed := s.chargeBudget(now, d, &t.reservation, n)
	switch {
	case charged:
		var hasRoom bool
		if b.tasks, hasRoom = b.tasks.withRoom(); !hasRoom {
			return lb.ErrNoRoom
		}
		b.refusals = b.refusals.Forget(t.key)
		d.addLoad(t.row, lb.Load{Requests: 1, Tokens: t.tokens})
		b.tasks = b.tasks.add(t.task.ID, t.key, d.hash(t.row), now, t.ttl, t.tokens, t.row)
		return nil
	case t.key != 0 && p.Budget.AgeBonus > 0:
		s.remember(now, b, t)
	case !changed && !expired:
		return lb.ErrOverBudget
	}
	t.refused = lb.ErrOverBudget
	return nil
}

// again gives the task that has the key, if one lives and its endpoint is a candidate, and renews it. Else that is
// abandoned.
func (s *Store) again(now time.Duration, d *draft, t *scheduling) bool {
	b := d.openBudgets()
	i := b.tasks.withKey(t.key)
	if i < 0 {
		return false
	}
	found := b.tasks.at(i)
	for j, c := range t.plan.Candidates {
		if lb.EndpointHash(c.Addr) != found.hash() {
			continue
		}
		found.setTTL(t.ttl)
		found.renew(taskMillis(now))
		row := t.scope.rows[j]
		state := b.state(row)
		t.task.ID, t.grant = found.id(), lb.Grant{Index: j, Load: d.loadOf(row), Left: state.Left()}
		return true
	}
	d.abandon(i, now)
	return false
}

// callMargin is by how much later than it was told a caller is expected to ask again: what it is told is up to a tenth
// longer than expected, and rounded up.
const callMargin = 1100 // ms

// remember notes that the task was refused and is expected to be asked for again.
func (s *Store) remember(now time.Duration, b *budgets, t *scheduling) {
	b.refusals = b.refusals.Remember(&budget.Refusal{
		Key: t.key, Since: millis(now), Expires: millis(now) + 1.1*millis(t.expected) + callMargin,
		Tokens: float64(t.plan.AddedTokens(0)), Row: t.scope.rows[t.grant.Index],
	})
}

// Complete implements [lb.TaskStore].
func (s *Store) Complete(now time.Duration, scope string, id lb.TaskID, actual int64, done func(lb.TaskEnd, error)) {
	end := lb.TaskUnknown
	err := s.changeTask(now, scope, id, func(d *draft, i int) (changed bool) {
		if end = lb.TaskUnknown; i < 0 {
			return false
		}
		t := d.budget.tasks.at(i)
		switch end = t.end(); end {
		case lb.TaskUnknown:
			if actual >= 0 {
				d.correct(now, correction{hash: t.hash(), tokens: float64(actual - t.tokens())})
			}
			d.endTask(i, now, lb.TaskCompleted)
			end, changed = lb.TaskCompleted, true
		case lb.TaskCompleted:
			end = lb.TaskEnded
		}
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
