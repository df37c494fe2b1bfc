package redisclient

import (
	"math"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// scheduling is a task that is to be placed.
type scheduling struct {
	reservation
	scope *scope
	args  []byte // of the command, behind the keys
	again bool   // it was sent again
	done  func(lb.Task, error)
}

// scheduleArgs is how many arguments the command has.
const scheduleArgs = 6

// Schedule implements [lb.TaskStore]. A task whose answer is lost is abandoned, unless the caller asks for it again by
// its key.
func (s *Store) Schedule(now time.Duration, key uint64, ttl time.Duration, p *lb.Plan, done func(lb.Task, error)) {
	if len(p.Candidates) == 0 || !p.HasBudget() {
		done(lb.Task{}, lb.ErrOverBudget)
		return
	}
	if err := s.owner.cannotReserve(p); err != nil {
		done(lb.Task{}, err)
		return
	}
	s.tasks++
	t := &scheduling{scope: s.scopeOf(p.Scope), done: done}
	t.scope.ledger.keepForTasks(now, ttl)
	t.List, t.limits = p.List, p.Budget.Limits
	t.lease = &lease{tokens: p.AddedTokens(0)}
	id := lb.NewTaskID(p.Random, s.number, s.tasks, p.Budget.Call)
	b := appendArg(make([]byte, 0, 128), id[:])
	b = appendArg(b, wire.Writer(nil).Uint64(key))
	b = appendInt(appendInt(b, ttlMillis(ttl)), dataTTL.Milliseconds())
	t.args = appendArg(b, wire.Writer(nil).Float64(float64(t.lease.tokens)).Float64(max(p.Budget.AgeBonus, 0)).
		Float64(float64(max(p.Budget.MaxHint.Milliseconds(), 0))).Float64(number(p.Budget.OwnCaps)))
	t.send(now)
}

// ttlMillis returns for how many ms a task lives.
func ttlMillis(ttl time.Duration) int64 { return min(max(ttl.Milliseconds(), 1), math.MaxUint32) }

// send sends the command, behind the list of candidates if Redis may not know that.
func (t *scheduling) send(now time.Duration) {
	at, lists := &t.scope.ledger.place, &t.scope.lists
	l := lists.use(now, t.List, t.limits)
	at.seq++
	sent := at.seq
	b := scriptSchedule.command(make([]byte, 0, 384), 5, scheduleArgs)
	for _, key := range []string{at.keys.Table, l.key, at.keys.Budget, at.keys.Tasks, at.keys.Expiry} {
		b = appendArg(b, key)
	}
	at.client.send(now, scriptSchedule, &at.node, appendArg(append(b, t.args...), at.owner.name), false,
		func(now time.Duration, v Value, err error) {
			task, unknownList, err := t.parse(now, v, err)
			if unknownList && !t.again {
				if l.sentSeq <= sent { // else it was already sent again
					lists.forget()
				}
				t.again = true
				t.send(now)
				return
			}
			if unknownList {
				err = ErrCandidatesLost
				if l.sendErr == nil {
					at.client.findMaster(now)
				}
			}
			t.done(task, err)
		})
}

// parse reads the answer of schedule.lua.
func (t *scheduling) parse(now time.Duration, v Value, err error) (
	task lb.Task, unknownList bool, _ error,
) {
	if err != nil {
		return task, false, err
	}
	n := 1 // items of the answer
	if v.Kind == Array && len(v.Items) > 1 && v.Items[0].Kind == Integer {
		n = 2
	}
	v, grants := splitGrants(v, n)
	t.scope.ledger.passOn(now, grants)
	switch {
	case v.Kind == Array && len(v.Items) == 1 && v.Items[0].Int == codeUnknownList:
		return task, true, nil
	case v.Kind == Array && len(v.Items) == 1 && v.Items[0].Int == codeOtherCall:
		return task, false, lb.ErrOtherCall
	case v.Kind == Array && len(v.Items) == 2 && v.Items[0].Int == codeOverBudget:
		reply, err := parseOverBudget(v.Items[1].Str, &t.reservation)
		if err == nil {
			err = lb.ErrOverBudget
		}
		return lb.Task{Grant: reply.grant}, false, err
	case v.Kind != Bulk || len(v.Str) < len(task.ID):
		return task, false, ErrGarbage
	}
	copy(task.ID[:], v.Str)
	reply, ok := unpackGrant(v.Str[len(task.ID):], &t.reservation)
	if !ok || int(reply.code) >= len(t.Candidates) || reply.grant.Load.Tokens < 0 {
		return lb.Task{}, false, ErrGarbage
	}
	task.Grant = reply.grant
	return task, false, nil
}

// Complete implements [lb.TaskStore].
func (s *Store) Complete(
	now time.Duration, scope string, id lb.TaskID, use lb.TaskUse, done func(lb.TaskEnd, error),
) {
	r := use.Restriction()
	numbers := []int64{max(use.Tokens, -1), wholeMillis(max(use.Closed, 0)), int64(r.Longest())}
	s.scopeOf(scope).ledger.endTask(now, scriptComplete, id, numbers, func(n int64, err error) {
		if err == nil && (n < 0 || n > int64(lb.TaskAbandoned)) {
			n, err = 0, ErrGarbage
		}
		done(lb.TaskEnd(n), err)
	})
}

// Renew implements [lb.TaskStore].
func (s *Store) Renew(now time.Duration, scope string, id lb.TaskID, ttl time.Duration, done func(bool, error)) {
	sc := s.scopeOf(scope)
	sc.ledger.keepForTasks(now, ttl)
	sc.ledger.endTask(now, scriptRenew, id, []int64{ttlMillis(ttl)}, func(n int64, err error) { done(n == 1, err) })
}

// endTask sends a command about one task, with numbers, whose answer is a number.
func (at *place) endTask(
	now time.Duration, sp *script, id lb.TaskID, numbers []int64, done func(int64, error),
) {
	b := sp.command(make([]byte, 0, 256), 4, 2+len(numbers))
	for _, key := range []string{at.keys.Table, at.keys.Budget, at.keys.Tasks, at.keys.Expiry} {
		b = appendArg(b, key)
	}
	b = appendArg(b, id[:])
	for _, n := range numbers {
		b = appendInt(b, n)
	}
	b = appendArg(b, at.owner.name)
	at.sendBackground(now, sp, b, func(now time.Duration, v Value, err error) {
		v, grants := splitGrants(v, 1)
		if err == nil && v.Kind != Integer {
			err = ErrGarbage
		}
		at.passOn(now, grants)
		if err != nil {
			done(0, err)
			return
		}
		done(v.Int, nil)
	})
}
