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
	scope *scopeState
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
	if err := s.cannotReserve(p); err != nil {
		done(lb.Task{}, err)
		return
	}
	s.tasks++
	t := &scheduling{scope: s.scopeOf(p.Scope), done: done}
	t.scope.keepForTasks(now, ttl)
	t.List, t.limits = p.List, p.Budget.Limits
	t.lease = &lease{scope: t.scope, tokens: p.AddedTokens(0)}
	id := lb.NewTaskID(p.Random, s.number, s.tasks)
	b := appendArg(make([]byte, 0, 128), id[:])
	b = appendArg(b, wire.Writer(nil).Uint64(key))
	b = appendInt(appendInt(b, ttlMillis(ttl)), dataTTL.Milliseconds())
	t.args = appendArg(b, wire.Writer(nil).Float64(float64(t.lease.tokens)).Float64(max(p.Budget.AgeBonus, 0)))
	s.sendTask(now, t)
}

// ttlMillis returns for how many ms a task lives.
func ttlMillis(ttl time.Duration) int64 { return min(max(ttl.Milliseconds(), 1), math.MaxUint32) }

// keepForTasks has heartbeats go on for as long as a task may live.
func (sc *scopeState) keepForTasks(now, ttl time.Duration) {
	sc.lastUsed, sc.drained = max(sc.lastUsed, now+ttl), false
}

// sendTask sends the command, behind the list of candidates if Redis may not know that.
func (s *Store) sendTask(now time.Duration, t *scheduling) {
	sc := t.scope
	l := sc.list(t.List, t.limits, s.owner)
	l.used = true
	if !l.isKnown(now) {
		s.sendList(now, sc, l)
	}
	s.seq++
	sent := s.seq
	b := scriptSchedule.command(make([]byte, 0, 384), 5, scheduleArgs)
	for _, key := range []string{sc.keys.Table, l.key, sc.keys.Budget, sc.keys.Tasks, sc.keys.Expiry} {
		b = appendArg(b, key)
	}
	s.client.send(now, scriptSchedule, &sc.node, appendArg(append(b, t.args...), s.owner), false,
		func(now time.Duration, v Value, err error) {
			task, unknownList, err := s.parseTask(now, v, t, err)
			if unknownList && !t.again {
				if l.sentSeq <= sent { // else it was already sent again
					sc.forgetLists()
				}
				t.again = true
				s.sendTask(now, t)
				return
			}
			if unknownList {
				err = ErrCandidatesLost
				s.client.findMaster(now)
			}
			t.done(task, err)
		})
}

// parseTask reads the answer of schedule.lua.
func (s *Store) parseTask(now time.Duration, v Value, t *scheduling, err error) (
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
	s.passOn(now, t.scope, grants)
	switch {
	case v.Kind == Array && len(v.Items) == 1 && v.Items[0].Int == codeUnknownList:
		return task, true, nil
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
	now time.Duration, scope string, id lb.TaskID, actual int64, done func(lb.TaskEnd, error),
) {
	s.endTask(now, scriptComplete, scope, id, max(actual, -1), func(n int64, err error) {
		if err == nil && (n < 0 || n > int64(lb.TaskAbandoned)) {
			n, err = 0, ErrGarbage
		}
		done(lb.TaskEnd(n), err)
	})
}

// Renew implements [lb.TaskStore].
func (s *Store) Renew(now time.Duration, scope string, id lb.TaskID, ttl time.Duration, done func(bool, error)) {
	s.scopeOf(scope).keepForTasks(now, ttl)
	s.endTask(now, scriptRenew, scope, id, ttlMillis(ttl), func(n int64, err error) { done(n == 1, err) })
}

// endTask sends a command about one task, whose answer is a number.
func (s *Store) endTask(
	now time.Duration, sp *script, scope string, id lb.TaskID, number int64, done func(int64, error),
) {
	sc := s.scopeOf(scope)
	b := sp.command(make([]byte, 0, 256), 4, 3)
	for _, key := range []string{sc.keys.Table, sc.keys.Budget, sc.keys.Tasks, sc.keys.Expiry} {
		b = appendArg(b, key)
	}
	b = appendArg(appendInt(appendArg(b, id[:]), number), s.owner)
	s.sendBackground(now, sp, sc, b, func(now time.Duration, v Value, err error) {
		v, grants := splitGrants(v, 1)
		if err == nil && v.Kind != Integer {
			err = ErrGarbage
		}
		s.passOn(now, sc, grants)
		if err != nil {
			done(0, err)
			return
		}
		done(v.Int, nil)
	})
}
