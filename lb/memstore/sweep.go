package memstore

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// sweeper returns what dead owners held, of all tables.
type sweeper struct {
	kv     lb.KV
	tables *tables
	ttl    time.Duration // of an owner without a heartbeat
	stats  *Stats
	draft  *draft // reused
	wake   func(owners []uint64)
}

// sweepEvery is the shortest time between two sweeps, of any owners.
const sweepEvery = time.Second

// sweep returns the leases of owners without a heartbeat for longer than the TTL, and corrects totals that are not the
// sum of what the owners hold. It does so if no owner has for sweepEvery.
func (s *sweeper) sweep(now time.Duration) error {
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
func (s *sweeper) removeDead(now time.Duration) error {
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
		s.stats.Returned += returned
	}
	return err
}

// reconcile sets the totals of one table to the sum of what its live members hold and were granted, and removes the
// dead members with what they wait for. What becomes free is granted to others. It reads the owner directory after the
// table: an owner is in the directory before it becomes a member, so a member that is not there is dead and not new.
func (s *sweeper) reconcile(slot int, now time.Duration) error {
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
		fix := s.draft
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
		fix.close(now)
		err = s.kv.Set(tableKey(slot), fix.table, cas)
		if errors.Is(err, lb.ErrMismatch) {
			s.stats.Retries++
			continue
		}
		if err == nil && dead+removed == 0 && !tidied {
			s.stats.Corrected++
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
func (s *sweeper) recount(slot int, t table, d directory, now time.Duration) (rows []byte, dead int, ok bool) {
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
