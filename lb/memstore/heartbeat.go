package memstore

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/internal/order"
	"github.com/warmgate/warmgate/lb"
)

// sweepEvery is the shortest time between two sweeps, of any owners.
const sweepEvery = time.Second

// Heartbeat implements [lb.Store]. An owner without a reservation so far is not in the owner directory: it only returns
// the leases of others.
func (s *Store) Heartbeat(now time.Duration) error {
	for id, forget := range s.releasedEarly {
		if now >= forget {
			delete(s.releasedEarly, id)
		}
	}
	if s.index >= 0 {
		kept, err := s.register(now)
		if err != nil {
			return err
		}
		s.rejoin(now, !kept)
	}
	s.Flush(now)
	s.Poll(now)
	s.retryFailed(now)
	return s.sweep(now)
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

// rejoin makes the owner a member again of each table in which it holds leases, for the case that they were returned
// because its heartbeats were late. If all is true it has lost its index, and so it has to write all its checkpoints
// again. Scopes without leases whose slot was assigned to another scope are forgotten.
func (s *Store) rejoin(now time.Duration, all bool) {
	for name, sc := range s.scopes {
		slot, t, _, err := s.tables.find(name, sc.slot)
		holds := !sc.held.isEmpty() || len(sc.pending) > 0 || len(sc.waiters) > 0 || sc.left
		switch {
		case err != nil:
		case !holds && (t == nil || slot != sc.slot):
			delete(s.scopes, name)
		case all || t == nil || slot != sc.slot || holds && t.memberOf(s.owner) < 0:
			s.sync(now, sc)
		}
	}
}

// sweep returns the leases of owners without a heartbeat for longer than the TTL, and corrects totals that are not the
// sum of what the owners hold. It does so if no owner has for sweepEvery.
func (s *Store) sweep(now time.Duration) error {
	due := false
	err := updateDirectory(s.kv, func(d directory) (directory, error) {
		since := now - d.sweptAt()
		if due = since < 0 || since >= sweepEvery; !due {
			return nil, nil
		}
		d.setSweptAt(now)
		return d, nil
	})
	if err != nil || !due {
		return err
	}
	for slot := range tableSlots {
		if err := s.reconcile(slot, now); err != nil && !errors.Is(err, errDamaged) {
			return err
		}
	}
	return s.removeDead(now)
}

// removeDead removes the dead owners from the owner directory, after all tables have been reconciled.
func (s *Store) removeDead(now time.Duration) error {
	returned := uint64(0)
	err := updateDirectory(s.kv, func(d directory) (directory, error) {
		returned = 0
		for i := range d.size() {
			if d.owner(i) != 0 && now-d.heartbeat(i) > s.ttl {
				d.set(i, 0, 0)
				returned++
			}
		}
		if returned == 0 {
			return nil, nil
		}
		return d, nil
	})
	if err == nil {
		s.Stats.Returned += returned
	}
	return err
}

// reconcile sets the totals of one table to the sum of what its live members hold and were granted, and removes the
// dead members with what they wait for. What becomes free is granted to others. It reads the owner directory after the
// table: an owner is in the directory before it becomes a member, so a member that is not there is dead and not new.
func (s *Store) reconcile(slot int, now time.Duration) error {
	for range maxTries {
		t, cas, err := s.tables.get(slot)
		if err != nil || t == nil {
			return err
		}
		val, _, err := s.kv.Get(directoryKey)
		d := directory(val)
		if err != nil || d.check() != nil {
			return errDamaged
		}
		fix := &s.draft
		fix.open(now, nil, t)
		removed, tidied := fix.removeDead(d, now, s.ttl), fix.tidyBudgets(now)
		sum, dead, ok := s.recount(slot, t, d, now)
		if !ok {
			continue // a member has taken a step since the table was read
		}
		fix.addGrants(sum)
		fix.addTasks(sum)
		if dead+removed == 0 && !tidied && string(sum) == string(t[:t.hashesAt()][t.rowsAt():]) {
			return nil
		}
		for i := t.members() - 1; i >= 0 && dead > 0; i-- {
			if !d.alive(t.member(i).owner(), now, s.ttl) {
				fix.table = fix.withoutMember(i)
			}
		}
		copy(fix.table[fix.rowsAt():], sum)
		fix.dispatch(now, 0)
		s.packed = fix.close(now, s.packed)
		err = s.kv.Set(tableKey(slot), fix.table, cas)
		if errors.Is(err, lb.ErrMismatch) {
			s.Stats.Retries++
			continue
		}
		if err == nil && dead+removed == 0 && !tidied {
			s.Stats.Corrected++
		}
		if err == nil {
			s.wake(fix.woken)
		}
		return err
	}
	return nil // the next sweep will try again
}

// recount returns the rows of the table as the sum of what its live members hold, and the number of its dead members.
// ok is false if a checkpoint and the log that was read do not fit together. Otherwise the sum is right if the table
// has not changed since it was read, which the caller's compare-and-swap proves.
func (s *Store) recount(slot int, t table, d directory, now time.Duration) (rows []byte, dead int, ok bool) {
	rows = make([]byte, t.rows()*rowSize)
	for i := range t.members() {
		m := t.member(i)
		if !d.alive(m.owner(), now, s.ttl) {
			dead++
			continue
		}
		val, _, err := s.kv.Get(checkpointKey(slot, m.index()))
		c := checkpoint(val)
		if err != nil || !c.check(m.owner()) {
			return nil, 0, false
		}
		if m.seq()-c.seq() > logLength {
			return nil, 0, false
		}
		for j := range min(c.rows(), t.rows()) {
			addAt(rows, j, c.load(j))
		}
		for seq := c.seq() + 1; seq != m.seq()+1; seq++ {
			m.step(seq).apply(rows, t.rows())
		}
	}
	return rows, dead, true
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
	t, err := s.lookup(scope)
	for _, a := range addrs {
		if err == nil && lb.IsOfTenants(scope) {
			t, err = s.lookup(tableName(scope, a))
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
