package memstore

import (
	"errors"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// sweepEvery is the least time between two sweeps, whichever owner makes them.
const sweepEvery = time.Second

// Heartbeat implements [lb.Store]. An owner that never reserved may beat too: it then only looks after the others.
func (s *Store) Heartbeat(now time.Duration) error {
	for id, forget := range s.early {
		if now >= forget {
			delete(s.early, id)
		}
	}
	if s.seat >= 0 {
		kept, err := s.sit(now)
		if err != nil {
			return err
		}
		s.assert(now, !kept)
	}
	s.Flush(now)
	late := s.late
	s.late = nil
	for _, id := range late {
		s.Release(now, id)
	}
	return s.sweep(now)
}

// assert sees to it that what this owner holds is counted: its leases are returned when it was silent for too long. all
// says that it has lost its seat, so that its sheets have to be written anew as well. Scopes whose slot another has
// taken, which are idle, are forgotten.
func (s *Store) assert(now time.Duration, all bool) {
	for name, sc := range s.scopes {
		slot, t, _, err := s.find(name, sc.slot)
		holds := sc.sheet.holds() || len(sc.pending) > 0
		switch {
		case err != nil:
		case !holds && (t == nil || slot != sc.slot):
			delete(s.scopes, name)
		case all || t == nil || slot != sc.slot || holds && t.memberOf(s.owner) < 0:
			s.touch(now, sc)
		}
	}
}

// sweep returns the leases of owners that have been silent for longer than the TTL, and sets totals right that are not
// the sum over their owners. One owner a second does it, whoever comes first.
func (s *Store) sweep(now time.Duration) error {
	due := false
	err := swapRoster(s.kv, func(r roster) (roster, error) {
		since := now - r.swept()
		if due = since < 0 || since >= sweepEvery; !due {
			return nil, nil
		}
		r.setSwept(now)
		return r, nil
	})
	if err != nil || !due {
		return err
	}
	for slot := range tableSlots {
		if err := s.settle(slot, now); err != nil && !errors.Is(err, errDamaged) {
			return err
		}
	}
	return s.unseat(now)
}

// unseat takes the dead owners off the roster: nothing is counted for them any more.
func (s *Store) unseat(now time.Duration) error {
	returned := uint64(0)
	err := swapRoster(s.kv, func(r roster) (roster, error) {
		returned = 0
		for i := range r.seats() {
			if r.owner(i) != 0 && now-r.beat(i) > s.ttl {
				r.set(i, 0, 0)
				returned++
			}
		}
		if returned == 0 {
			return nil, nil
		}
		return r, nil
	})
	if err == nil {
		s.Stats.Returned += returned
	}
	return err
}

// settle makes the totals of one table the sum over the sheets of its live members, and removes the dead ones. The
// roster is read after the table: every member was on it before it joined, so one that is not is dead and not new.
func (s *Store) settle(slot int, now time.Duration) error {
	for range swapTries {
		t, cas, err := s.get(slot)
		if err != nil || t == nil {
			return err
		}
		val, _, err := s.kv.Get(rosterKey)
		r := roster(val)
		if err != nil || r.check() != nil {
			return errDamaged
		}
		sum, dead, ok := s.recount(slot, t, r, now)
		if !ok {
			continue // a member has taken a step since the table was read
		}
		if dead == 0 && string(sum) == string(t[:t.hashesAt()][t.rowsAt():]) {
			return nil
		}
		fixed := t
		for i := t.members() - 1; i >= 0 && dead > 0; i-- {
			if !r.alive(t.member(i).owner(), now, s.ttl) {
				fixed = fixed.withoutMember(i)
			}
		}
		copy(fixed[fixed.rowsAt():], sum)
		err = s.kv.Set(tableKey(slot), fixed, cas)
		if errors.Is(err, lb.ErrMismatch) {
			s.Stats.Retries++
			continue
		}
		if err == nil && dead == 0 {
			s.Stats.Corrected++
		}
		return err
	}
	return nil // the next sweep will try again
}

// recount returns the rows as the sum over the sheets of the live members, and how many members are dead. It is
// meaningful only if the table has not changed since it was read, which the caller's swap proves.
func (s *Store) recount(slot int, t table, r roster, now time.Duration) (rows []byte, dead int, ok bool) {
	rows = make([]byte, t.rows()*rowSize)
	for i := range t.members() {
		m := t.member(i)
		if !r.alive(m.owner(), now, s.ttl) {
			dead++
			continue
		}
		val, _, err := s.kv.Get(sheetKey(slot, m.seat()))
		sh := sheet(val)
		if err != nil || !sh.check(m.owner()) {
			return nil, 0, false
		}
		if m.seq()-sh.seq() > stepsKept {
			return nil, 0, false
		}
		for j := range min(sh.rows(), t.rows()) {
			addAt(rows, j, sh.load(j))
		}
		for seq := sh.seq() + 1; seq != m.seq()+1; seq++ {
			m.step(seq).apply(rows, t.rows())
		}
	}
	return rows, dead, true
}

// Owners returns how many owners are alive.
func (s *Store) Owners(now time.Duration) (int, error) {
	alive := 0
	err := swapRoster(s.kv, func(r roster) (roster, error) {
		alive = 0
		for i := range r.seats() {
			if r.owner(i) != 0 && now-r.beat(i) <= s.ttl {
				alive++
			}
		}
		return nil, nil
	})
	return alive, err
}

// Loads appends the load of every given endpoint of the scope, over all owners, to dst.
func (s *Store) Loads(scope string, addrs []string, dst []lb.Load) ([]lb.Load, error) {
	t, err := s.look(scope)
	if err != nil {
		return dst, err
	}
	for _, a := range addrs {
		l := lb.Load{}
		if t != nil {
			if row := t.find(lb.EndpointHash(a)); row != noRow {
				l = t.load(row)
			}
		}
		dst = append(dst, l)
	}
	return dst, nil
}
