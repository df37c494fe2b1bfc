package lb

import (
	"time"

	"github.com/warmgate/warmgate/lb/budget"
)

var _ TaskStore = (*FallbackStore)(nil)

// Settle implements [Store], for the store that decides now.
func (s *FallbackStore) Settle(now time.Duration, scope, addr string, delta int64) {
	s.deciding(now).Settle(now, scope, addr, delta)
}

// Restrict implements [Store], for both stores.
func (s *FallbackStore) Restrict(now time.Duration, scope, addr string, r budget.Restriction) {
	s.local.Restrict(now, scope, addr, r)
	s.remote.Restrict(now, scope, addr, r)
}

// deciding returns the store that decides now.
func (s *FallbackStore) deciding(now time.Duration) Store {
	if s.remote.Ready(now) {
		return s.remote
	}
	return s.local
}

// Schedule implements [TaskStore]: tasks are in the remote store only.
func (s *FallbackStore) Schedule(now time.Duration, key uint64, ttl time.Duration, p *Plan, done func(Task, error)) {
	s.remote.Schedule(now, key, ttl, p, done)
}

// Complete implements [TaskStore].
func (s *FallbackStore) Complete(now time.Duration, scope string, id TaskID, actual int64, done func(TaskEnd, error)) {
	s.remote.Complete(now, scope, id, actual, done)
}

// Renew implements [TaskStore].
func (s *FallbackStore) Renew(now time.Duration, scope string, id TaskID, ttl time.Duration, done func(bool, error)) {
	s.remote.Renew(now, scope, id, ttl, done)
}
