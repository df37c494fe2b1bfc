package memstore

import (
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// takingKey holds the taking of a slot that was begun last: slot u16, when u16, in ticks, then the scope's name; one
// byte when there was none.
//
// A slot is free while its table was never used, or is idle: no owner holds a lease there. Taking one is a swap of its
// table, which fails should anybody use that meanwhile. But two owners that look for the same scope may find different
// slots free, and must not take one each. So who takes a slot says so here first, by a swap, having seen that no slot
// is the scope's; and who finds a taking here that is not finished does so in the other's place. Then the other's swap
// of the table fails, whenever it comes, and also an owner that died in between leaves nothing behind.
const takingKey = keyPrefix + "taking"

// find returns the scope's slot and table. It looks where the scope was before, then from the hash of its name on until
// a slot that was never used. The table is nil when the scope has none; slot is then the one that was never used, or
// -1.
func (s *Store) find(scope string, before int) (slot int, t table, cas uint32, err error) {
	if before >= 0 {
		t, cas, err = s.get(before)
		if err == nil && t != nil && t.isFor(scope) || err != nil && !errors.Is(err, errDamaged) {
			return before, t, cas, err
		}
	}
	start := int(xxhash.Sum64String(scope) % tableSlots)
	for i := range tableSlots {
		slot = (start + i) % tableSlots
		t, cas, err = s.get(slot)
		switch {
		case errors.Is(err, errDamaged):
			continue
		case err != nil || t == nil || t.isFor(scope):
			return slot, t, cas, err
		}
	}
	return -1, nil, 0, nil
}

// take gives the scope a slot, unless it has one meanwhile: one that was never used, else the one that has been idle
// for longest. It returns the slot and its table.
func (s *Store) take(now time.Duration, scope string) (int, table, uint32, error) {
	if len(scope) > maxScope {
		return -1, nil, 0, lb.ErrNoRoom
	}
	for range swapTries {
		val, version, err := s.kv.Get(takingKey)
		if errors.Is(err, lb.ErrNotFound) {
			return -1, nil, 0, lb.ErrUnready
		}
		if err != nil {
			return -1, nil, 0, &storeError{"reading who takes a slot", err}
		}
		if err := s.finish(val, version); err != nil {
			return -1, nil, 0, err
		}
		slot, t, cas, err := s.find(scope, -1)
		if err != nil || t != nil {
			return slot, t, cas, err
		}
		if slot < 0 {
			if slot, cas, err = s.idle(now); err != nil {
				return -1, nil, 0, err
			}
		}
		val = wire.Writer(nil).Uint16(uint16(slot)).Uint16(tickOf(now)).Raw(scope)
		if err = s.kv.Set(takingKey, val, version); err == nil {
			err = s.kv.Set(tableKey(slot), newTable(scope).at(tickOf(now)), cas)
		}
		switch {
		case errors.Is(err, lb.ErrMismatch):
			s.Stats.Retries++
		case err != nil:
			return -1, nil, 0, &storeError{"taking a slot", err}
		}
	}
	return -1, nil, 0, lb.ErrContended
}

// finish does what is left of a taking, of which version is the version of its value. Afterwards whoever began it can
// no longer do so.
func (s *Store) finish(val []byte, version uint32) error {
	r := wire.NewReader(val)
	slot, tick, scope := int(r.Uint16()), r.Uint16(), string(r.Rest())
	if !r.OK() || slot >= tableSlots {
		return nil
	}
	t, cas, err := s.get(slot)
	switch {
	case errors.Is(err, errDamaged):
		return nil
	case err != nil:
		return err
	case t != nil && (t.isFor(scope) || !t.isIdle()):
		return nil
	}
	// If another taking has followed, this one was finished before it, and the scope may have another slot by now. This
	// is read after the table, so that a taking that follows later changes the table first, and the write below fails.
	if _, now, err := s.kv.Get(takingKey); err != nil || now != version {
		return nil
	}
	err = s.kv.Set(tableKey(slot), newTable(scope).at(tick), cas)
	switch {
	case errors.Is(err, lb.ErrMismatch):
		s.Stats.Retries++
	case err != nil:
		return &storeError{"taking a slot", err}
	}
	return nil
}

// idle returns the slot that has been idle for longest, and the version of its table.
func (s *Store) idle(now time.Duration) (slot int, cas uint32, err error) {
	slot = -1
	longest := uint16(0)
	for i := range tableSlots {
		t, version, err := s.get(i)
		if errors.Is(err, errDamaged) {
			continue
		}
		if err != nil {
			return -1, 0, err
		}
		if t == nil || !t.isIdle() {
			continue
		}
		if age := tickOf(now) - t.used(); slot < 0 || age > longest {
			slot, cas, longest = i, version, age
		}
	}
	if slot < 0 {
		return -1, 0, lb.ErrNoRoom
	}
	return slot, cas, nil
}

// look returns the scope's table, nil if it has none. Once a slot was taken it reads all tables, and else the scope's
// own.
func (s *Store) look(scope string) (table, error) {
	if sc, ok := s.scopes[scope]; ok && sc.slot >= 0 {
		if t, _, err := s.get(sc.slot); err == nil && t != nil && t.isFor(scope) {
			return t, nil
		}
	}
	if err := s.list(); err != nil {
		return nil, err
	}
	slot, ok := s.slots[scope]
	if !ok {
		return nil, nil
	}
	t, _, err := s.get(slot)
	if err != nil || t == nil || !t.isFor(scope) {
		return nil, err
	}
	return t, nil
}

// list brings the list of slots by scope up to date.
func (s *Store) list() error {
	val, version, err := s.kv.Get(takingKey)
	if errors.Is(err, lb.ErrNotFound) {
		return lb.ErrUnready
	}
	if err != nil {
		return &storeError{"reading who takes a slot", err}
	}
	if s.slots != nil && version == s.listed {
		return nil
	}
	if err := s.finish(val, version); err != nil {
		return err
	}
	slots := map[string]int{}
	for slot := range tableSlots {
		t, _, err := s.get(slot)
		if err != nil && !errors.Is(err, errDamaged) {
			return err
		}
		if err == nil && t != nil {
			slots[string(t[t.scopeAt():])] = slot
		}
	}
	s.slots, s.listed = slots, version
	return nil
}

// get returns the table in a slot, nil when the slot was never used.
func (s *Store) get(slot int) (table, uint32, error) {
	val, cas, err := s.kv.Get(tableKey(slot))
	if errors.Is(err, lb.ErrNotFound) {
		return nil, 0, lb.ErrUnready
	}
	if err != nil {
		return nil, 0, &storeError{"reading the counts", err}
	}
	if len(val) <= 1 {
		return nil, cas, nil
	}
	t := table(val)
	return t, cas, t.check()
}
