package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// scheduling is a task while its swap is tried.
type scheduling struct {
	reservation
	key  uint64
	ttl  time.Duration
	task lb.Task
}

// placeTask chooses an endpoint for the task, and charges and counts it there.
func (pl *placer) placeTask(now time.Duration, d *draft, t *scheduling) (err error) {
	sc, p := t.scope, t.plan
	t.refused, t.grant, t.expected = nil, lb.Grant{}, 0 // an earlier try may have set them
	if d.table, err = sc.locate(d.table, p.List, &pl.hashes); err != nil {
		return err
	}
	b := d.openBudgets()
	expired := d.expireTasks(now)
	if i := b.tasks.withKey(t.key); i >= 0 && !b.tasks.at(i).id().IsOf(p.Budget.Call) {
		if t.refused = lb.ErrOtherCall; !expired {
			return lb.ErrOtherCall
		}
		return nil
	}
	if pl.again(now, d, t) {
		return nil
	}
	pl.readLoads(d, sc)
	b.refusals = b.refusals.Expire(millis(now))
	n := len(b.refusals)
	t.told, t.crowded = t.key == 0 || p.Budget.AgeBonus <= 0, false
	if t.key != 0 {
		n = b.refusals.Find(t.key)
	}
	if n == len(b.refusals) {
		t.told = t.told || !b.refusals.HasRoom(false)
		t.crowded = !b.refusals.HasRoom(true)
	}
	charged, changed := pl.chargeBudget(now, d, &t.reservation, n)
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
	case !t.told:
		t.remember(now, b, pl.loads[t.grant.Index])
	case !changed && !expired:
		return lb.ErrOverBudget
	}
	t.refused = lb.ErrOverBudget
	return nil
}

// again gives the task that has the key, if one lives and its endpoint is a candidate, and renews it. Else that is
// abandoned.
func (pl *placer) again(now time.Duration, d *draft, t *scheduling) bool {
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
		state.Advance(millis(now))
		t.task.ID, t.grant = found.id(), lb.Grant{Index: j, Load: d.loadOf(row), Left: state.Left()}
		return true
	}
	d.abandon(i, now)
	return false
}

// callMargin is by how much later than it was told a caller is expected to ask again: what it is told is up to a tenth
// longer than expected, and rounded up.
const callMargin = 1100 // ms

// remember notes that the task was refused and is expected to be asked for again, at the target with the load.
func (t *scheduling) remember(now time.Duration, b *budgets, load lb.Load) {
	wait := t.expected
	if most := t.plan.Budget.MaxHint; most > 0 {
		wait = min(wait, most)
	}
	tokens := float64(t.plan.AddedTokens(0))
	if c := &t.plan.Candidates[t.grant.Index]; t.plan.Budget.OwnCaps && c.IsFull(load) {
		tokens = 0
	}
	b.refusals = b.refusals.Remember(&budget.Refusal{
		Key: t.key, Since: millis(now), Expires: millis(now) + 1.1*millis(wait) + callMargin,
		Tokens: tokens, Row: t.scope.rows[t.grant.Index],
	})
}
