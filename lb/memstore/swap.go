package memstore

import (
	"errors"
	"slices"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// swap changes the scope's table by one step of one lease, and by those that wait for it, and now and then writes the
// owner's sheet. change gets the table as it is and returns it, possibly with more rows, and the step; it may be called
// several times. Its errors end the swap.
func (s *Store) swap(now time.Duration, sc *scope, change func(table) (table, step, error)) (step, error) {
	for range swapTries {
		t, cas, err := s.read(now, sc)
		if err != nil {
			return step{}, err
		}
		if t, err = s.join(now, sc, t); err != nil {
			return step{}, err
		}
		for _, st := range sc.pending {
			t.apply(st)
		}
		t, st, err := change(t)
		if err != nil {
			sc.asked = nil // rows that change has added are not there
			return step{}, err
		}
		t.apply(st)
		s.log(sc, t.at(tickOf(now)), st)
		err = s.kv.Set(tableKey(sc.slot), t, cas)
		if errors.Is(err, lb.ErrMismatch) {
			s.Stats.Retries++
			if t.generation() == sc.located && t.generation() != sc.hashed {
				sc.asked = nil // likewise
			}
			continue
		}
		if err != nil {
			return step{}, &storeError{"writing the counts", err}
		}
		s.swapped(sc, t, st)
		return st, nil
	}
	return step{}, lb.ErrContended
}

// log enters the steps of a swap into the table.
func (s *Store) log(sc *scope, t table, last step) {
	if sc.sheet.seq()-sc.written+uint32(len(sc.pending))+1 > stepsKept {
		s.write(sc)
	}
	m := t.member(t.memberOf(s.owner))
	m.sit(s.owner, s.seat, sc.sheet.seq())
	for _, st := range sc.pending {
		m.log(st)
	}
	m.log(last)
}

// swapped brings the owner's own state to the table that was just written.
func (s *Store) swapped(sc *scope, t table, last step) {
	sc.sheet = sc.sheet.grow(t.rows())
	for _, st := range sc.pending {
		sc.sheet.record(sc.sheet.seq()+1, st)
	}
	sc.sheet.record(sc.sheet.seq()+1, last)
	sc.pending = sc.pending[:0]
	if sc.hashed != t.generation() || len(sc.hashes) != t.rows() {
		sc.remember(t)
	}
}

// maxPending keeps the steps of one swap fewer than the log has room for.
const maxPending = stepsKept - 2

// busyAbove is from how many reservations between two flushes on a release or correction waits for the next
// reservation.
const busyAbove = 100

// defers says whether a step should wait for the next swap of the scope and be written with it. While this worker makes
// a thousand reservations a second, that saves half of the swaps and delays a release by a millisecond.
func (s *Store) defers(sc *scope) bool { return s.busy && len(sc.pending) < maxPending }

// Flush writes the steps that wait. Call it about ten times a second.
func (s *Store) Flush(now time.Duration) {
	s.busy = s.reserved > busyAbove
	s.reserved = 0
	for _, sc := range s.scopes {
		if len(sc.pending) > 0 {
			s.touch(now, sc)
		}
	}
}

// touch makes a swap for the sake of what comes with it: steps that wait, or joining the table. Should it fail, the
// next swap does the same.
func (s *Store) touch(now time.Duration, sc *scope) {
	_, _ = s.swap(now, sc, func(t table) (table, step, error) {
		return t, step{from: noRow, to: noRow}, nil
	})
}

// write puts the owner's sheet into shared memory.
func (s *Store) write(sc *scope) {
	sc.inPlace = s.kv.Set(sheetKey(sc.slot, s.seat), sc.sheet, 0) == nil
	sc.written = sc.sheet.seq()
}

// join returns the table with this owner among its members. An owner that is not (its first lease here, or it was
// silent for longer than the TTL and its leases were returned) asserts what it holds.
func (s *Store) join(now time.Duration, sc *scope, t table) (table, error) {
	if t.memberOf(s.owner) >= 0 {
		if !sc.inPlace {
			s.write(sc)
		}
		return t, nil
	}
	if _, err := s.sit(now); err != nil {
		return nil, err
	}
	t, err := s.remap(sc, t)
	if err != nil {
		return nil, err
	}
	s.write(sc)
	if !sc.inPlace {
		return nil, errors.New("lb: writing what the owner holds failed")
	}
	t = t.withMember()
	t.member(t.members()-1).sit(s.owner, s.seat, sc.sheet.seq())
	sc.sheet.addTo(t, 1)
	return t, nil
}

// sit puts the owner on the roster, or renews it there. It says whether the owner has kept its seat since the last
// time; if not, its leases were returned and its sheets may be overwritten.
func (s *Store) sit(now time.Duration) (kept bool, err error) {
	seat := -1
	err = swapRoster(s.kv, func(r roster) (roster, error) {
		kept = s.seat >= 0 && s.seat < r.seats() && r.owner(s.seat) == s.owner
		var err error
		r, seat, err = r.seated(s.owner, s.seat, now)
		return r, err
	})
	if err != nil || kept {
		return kept, err
	}
	s.seat = seat
	for _, sc := range s.scopes {
		sc.inPlace = false
	}
	return false, nil
}

// remap brings the owner's sheet and leases to the rows of t, which may be another table than the one they were
// counted in.
func (s *Store) remap(sc *scope, t table) (table, error) {
	var held []uint64
	for _, l := range s.leases {
		if l.scope == sc && !slices.Contains(held, sc.hashes[l.row]) {
			held = append(held, sc.hashes[l.row])
		}
	}
	for _, h := range held {
		if t.find(h) == noRow {
			var err error
			if t, err = t.withRows(held); err != nil {
				return nil, err
			}
			break
		}
	}
	fresh := newSheet(s.owner).grow(t.rows())
	for id, l := range s.leases {
		if l.scope == sc {
			l.row = t.find(sc.hashes[l.row])
			s.leases[id] = l
			fresh.record(0, step{from: noRow, to: l.row, toTokens: l.tokens})
		}
	}
	fresh.record(sc.sheet.seq(), step{from: noRow, to: noRow})
	sc.sheet, sc.asked = fresh, nil
	sc.pending = sc.pending[:0] // a new sheet counts only what is still held
	sc.remember(t)
	return t, nil
}

// read returns the scope's table and its version, and gives the scope a slot when it has none.
func (s *Store) read(now time.Duration, sc *scope) (table, uint32, error) {
	slot, t, cas, err := s.find(sc.name, sc.slot)
	if err == nil && t == nil {
		slot, t, cas, err = s.take(now, sc.name)
	}
	if err != nil {
		return nil, 0, err
	}
	if slot != sc.slot {
		sc.slot, sc.inPlace, sc.asked = slot, false, nil
	}
	return t, cas, nil
}
