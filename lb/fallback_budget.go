package lb

import (
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

// While the remote store does not answer, each gateway stays below its share of every rate, as of every cap. The
// embedded store charges what the remote one has granted to this gateway, so that its buckets hold what is left then.
//
// Tasks are in the remote store alone: they belong to no gateway. While it does not answer none is scheduled, and those
// that it has live on there. What they have in flight is not known to the embedded store.

var _ TaskStore = (*FallbackStore)(nil)

// shareOfLimits returns a share of the rates.
func shareOfLimits(limits []budget.Limits, share float64) []budget.Limits {
	if share >= 1 {
		return limits
	}
	out := slices.Clone(limits)
	for i := range out {
		out[i].Tokens *= share
		out[i].Requests *= share
	}
	return out
}

// Settle implements [Store]: each store corrects what it has charged itself. A lease that was granted without the
// remote store was charged in the embedded one alone.
func (s *FallbackStore) Settle(now time.Duration, id LeaseID, addr string, tokens, requests int64) {
	s.local.Settle(now, id, addr, tokens, requests)
	s.remote.Settle(now, s.remoteID(id), addr, tokens, requests) // also if it is not ready: it notes what it lacks
}

// Restrict implements [Store], for both stores.
func (s *FallbackStore) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	s.local.Restrict(now, scope, addr, r)
	if s.remote.Ready(now) {
		s.remote.Restrict(now, scope, addr, r)
	}
}

// Schedule implements [TaskStore], for the remote store.
func (s *FallbackStore) Schedule(now time.Duration, key uint64, ttl time.Duration, p *Plan, done func(Task, error)) {
	if !s.remote.Ready(now) {
		done(Task{}, ErrRemoteDown)
		return
	}
	s.remote.Schedule(now, key, ttl, p, done)
}

// Complete implements [TaskStore], for the remote store.
func (s *FallbackStore) Complete(now time.Duration, scope string, id TaskID, use TaskUse, done func(TaskEnd, error)) {
	if !s.remote.Ready(now) {
		done(TaskUnknown, ErrRemoteDown)
		return
	}
	s.remote.Complete(now, scope, id, use, done)
}

// Renew implements [TaskStore], for the remote store.
func (s *FallbackStore) Renew(
	now time.Duration, scope string, id TaskID, ttl time.Duration, done func(found bool, err error),
) {
	if !s.remote.Ready(now) {
		done(false, ErrRemoteDown)
		return
	}
	s.remote.Renew(now, scope, id, ttl, done)
}

// Overrides implements [TaskStore], for the remote store.
func (s *FallbackStore) Overrides(now time.Duration, scope string, set *Override, done func([]Override, error)) {
	if !s.remote.Ready(now) {
		done(nil, ErrRemoteDown)
		return
	}
	s.remote.Overrides(now, scope, set, done)
}

// Levels implements [TaskStore], for the remote store.
func (s *FallbackStore) Levels(now time.Duration, scope string, addrs []string, done func([]BudgetLevel, error)) {
	if !s.remote.Ready(now) {
		done(nil, ErrRemoteDown)
		return
	}
	s.remote.Levels(now, scope, addrs, done)
}
