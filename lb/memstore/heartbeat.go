package memstore

import (
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

// Flush writes the pending steps. Call it about ten times a second.
func (s *Store) Flush(now time.Duration) { s.ledger.flush(now) }

// Heartbeat implements [lb.Store]. An owner without a reservation so far is not in the owner directory: it only returns
// the leases of others.
func (s *Store) Heartbeat(now time.Duration) error {
	for id, forget := range s.releasedEarly {
		if now >= forget {
			delete(s.releasedEarly, id)
		}
	}
	if s.self.index >= 0 {
		kept, err := s.ledger.register(now)
		if err != nil {
			return err
		}
		s.ledger.rejoin(now, !kept)
	}
	s.Flush(now)
	s.Poll(now)
	s.retryFailed(now)
	return s.sweeper.sweep(now)
}

// retryFailed releases and amends again what could not be written.
func (s *Store) retryFailed(now time.Duration) {
	failed := s.failedReleases
	s.failedReleases = nil
	for _, id := range failed {
		s.Release(now, id)
	}
	for _, id := range order.Keys(s.failedAmends) {
		if a, ok := s.failedAmends[id]; ok {
			s.Amend(now, id, a.addr, a.tokens)
		}
	}
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
