package memstore

import (
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/queue"
)

// Levels implements [lb.TaskStore].
func (s *Store) Levels(now time.Duration, scope string, addrs []string, done func([]lb.BudgetLevel, error)) {
	t, err := s.ledger.lookup(scope)
	if err != nil {
		done(nil, err)
		return
	}
	levels := make([]lb.BudgetLevel, len(addrs))
	var b budgets
	if t != nil {
		b.read(t)
	}
	for i, addr := range addrs {
		row := noRow
		if t != nil {
			row = t.find(lb.EndpointHash(addr))
		}
		if row != noRow {
			levels[i] = lb.BudgetLevel{Load: t.loadOf(row), Budget: b.state(row)}
		}
		levels[i].Budget = levels[i].Budget.Look(millis(now))
	}
	done(levels, nil)
}

// Waits implements [lb.Store].
func (s *Store) Waits(id lb.LeaseID) bool {
	_, ok := s.requests.waiters[id]
	return ok
}

// Queue implements [lb.Store].
func (s *Store) Queue(_ time.Duration, scope string) lb.QueueStats {
	t, err := s.ledger.lookup(scope)
	if err != nil || t == nil || !t.hasQueue() {
		return lb.QueueStats{}
	}
	q, err := queue.Decode(t[t.queueAt():])
	if err != nil {
		return lb.QueueStats{}
	}
	return q.Stats()
}

// Owners returns how many owners are alive.
func (s *Store) Owners(now time.Duration) (int, error) {
	alive := 0
	err := updateDirectory(s.kv, func(d directory) (directory, error) {
		alive = 0
		for i := range d.size() {
			if d.owner(i) != 0 && now-d.heartbeat(i) <= s.ttl {
				alive++
			}
		}
		return nil, nil
	})
	return alive, err
}

// Loads appends the load of each endpoint in the scope, over all owners, to dst. Endpoints that are not counted there
// have no load.
func (s *Store) Loads(scope string, addrs []string, dst []lb.Load) ([]lb.Load, error) {
	t, err := s.ledger.lookup(scope)
	for _, a := range addrs {
		if err == nil && lb.IsOfTenants(scope) {
			t, err = s.ledger.lookup(tableName(scope, a))
		}
		if err != nil {
			return dst, err
		}
		l := lb.Load{}
		if t != nil {
			if row := t.find(lb.EndpointHash(a)); row != noRow {
				l = t.loadOf(row)
			}
		}
		dst = append(dst, l)
	}
	return dst, err
}
