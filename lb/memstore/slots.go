package memstore

import (
	"errors"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
)

// A scope's table is in one of tableSlots slots. A slot is available while it was never used, or while its table is
// idle: no owner holds a lease there. It is assigned to another scope by a compare-and-swap of its table, which fails
// if that is used at the same time.
//
// Two owners that look for a slot for the same scope may find different slots available, and must not assign one each.
// So an owner first writes the assignment that it is about to make under assignmentKey, by a compare-and-swap, after it
// has seen that no slot is the scope's. An owner that finds an unfinished assignment there finishes it. Then the table
// has changed, so the swap of the owner that began it fails, however late it comes; and an owner that died in between
// leaves nothing behind. The value of assignmentKey is the latest assignment:
//
//	offset  size  value
//	0       2     slot
//	2       2     tick of the assignment
//	4             the scope's name
//
// or one byte if no slot was ever assigned.

// tables are those of all scopes, as they are in shared memory.
type tables struct {
	kv      lb.KV
	stats   *Stats
	slots   map[string]int // by scope, for lookup
	version uint32         // of the slot assignment that slots are from
}

// find returns the scope's slot and table. It looks in the slot before, if that is not negative, and then in all slots
// from the one that the hash of the name selects, until one that was never used. If the scope has no table, t is nil
// and slot is the one that was never used, or -1.
func (ts *tables) find(scope string, before int) (slot int, t table, cas uint32, err error) {
	if before >= 0 {
		t, cas, err = ts.get(before)
		if err == nil && t != nil && t.isFor(scope) || err != nil && !errors.Is(err, errDamaged) {
			return before, t, cas, err
		}
	}
	start := int(xxhash.Sum64String(scope) % tableSlots)
	for i := range tableSlots {
		slot = (start + i) % tableSlots
		t, cas, err = ts.get(slot)
		switch {
		case errors.Is(err, errDamaged):
			continue
		case err != nil || t == nil || t.isFor(scope):
			return slot, t, cas, err
		}
	}
	return -1, nil, 0, nil
}

// assign gives the scope a slot, unless it has got one in the meantime: one that was never used, else the one that has
// been idle for longest. It returns the slot and its table.
func (ts *tables) assign(now time.Duration, scope string) (int, table, uint32, error) {
	if len(scope) > maxScope {
		return -1, nil, 0, lb.ErrNoRoom
	}
	for range maxTries {
		val, version, err := ts.kv.Get(assignmentKey)
		if errors.Is(err, lb.ErrNotFound) {
			return -1, nil, 0, lb.ErrUnready
		}
		if err != nil {
			return -1, nil, 0, &storeError{"reading the slot assignment", err}
		}
		if err := ts.finish(val, version); err != nil {
			return -1, nil, 0, err
		}
		slot, t, cas, err := ts.find(scope, -1)
		if err != nil || t != nil {
			return slot, t, cas, err
		}
		if slot < 0 {
			if slot, cas, err = ts.longestIdle(now); err != nil {
				return -1, nil, 0, err
			}
		}
		val = wire.Writer(nil).Uint16(uint16(slot)).Uint16(tickOf(now)).Raw(scope)
		if err = ts.kv.Set(assignmentKey, val, version); err == nil {
			err = ts.kv.Set(tableKey(slot), newTable(scope).setUsedAt(tickOf(now)), cas)
		}
		switch {
		case errors.Is(err, lb.ErrMismatch):
			ts.stats.Retries++
		case err != nil:
			return -1, nil, 0, &storeError{"assigning a slot", err}
		}
	}
	return -1, nil, 0, lb.ErrContended
}

// finish finishes an assignment, given by its value and the version of that, unless it is finished. Afterwards the
// owner that began it cannot finish it any more.
func (ts *tables) finish(val []byte, version uint32) error {
	r := wire.NewReader(val)
	slot, tick, scope := int(r.Uint16()), r.Uint16(), string(r.Rest())
	if !r.OK() || slot >= tableSlots {
		return nil
	}
	t, cas, err := ts.get(slot)
	switch {
	case errors.Is(err, errDamaged):
		return nil
	case err != nil:
		return err
	case t != nil && (t.isFor(scope) || !t.isIdle()):
		return nil
	}
	// If there is a later assignment, this one was finished before that, and the scope may have another slot by now.
	// The version is read after the table: if the later assignment begins after this read, it changes the table first,
	// and the write below fails.
	if _, latest, err := ts.kv.Get(assignmentKey); err != nil || latest != version {
		return nil
	}
	err = ts.kv.Set(tableKey(slot), newTable(scope).setUsedAt(tick), cas)
	switch {
	case errors.Is(err, lb.ErrMismatch):
		ts.stats.Retries++
	case err != nil:
		return &storeError{"assigning a slot", err}
	}
	return nil
}

// longestIdle returns the slot that has been idle for longest, and the version of its table.
func (ts *tables) longestIdle(now time.Duration) (slot int, cas uint32, err error) {
	slot = -1
	longest := uint16(0)
	for i := range tableSlots {
		t, version, err := ts.get(i)
		if errors.Is(err, errDamaged) {
			continue
		}
		if err != nil {
			return -1, 0, err
		}
		if t == nil || !t.isIdle() {
			continue
		}
		if age := tickOf(now) - t.usedAt(); slot < 0 || age > longest {
			slot, cas, longest = i, version, age
		}
	}
	if slot < 0 {
		return -1, 0, lb.ErrNoRoom
	}
	return slot, cas, nil
}

// lookup returns the scope's table, nil if it has none. It looks in the slot before, if that is not negative. It reads
// all tables if a slot was assigned since the last time, and else only the scope's own.
func (ts *tables) lookup(scope string, before int) (table, error) {
	if before >= 0 {
		if t, _, err := ts.get(before); err == nil && t != nil && t.isFor(scope) {
			return t, nil
		}
	}
	if err := ts.updateSlots(); err != nil {
		return nil, err
	}
	slot, ok := ts.slots[scope]
	if !ok {
		return nil, nil
	}
	t, _, err := ts.get(slot)
	if err != nil || t == nil || !t.isFor(scope) {
		return nil, err
	}
	return t, nil
}

// updateSlots brings the list of slots by scope up to date.
func (ts *tables) updateSlots() error {
	val, version, err := ts.kv.Get(assignmentKey)
	if errors.Is(err, lb.ErrNotFound) {
		return lb.ErrUnready
	}
	if err != nil {
		return &storeError{"reading the slot assignment", err}
	}
	if ts.slots != nil && version == ts.version {
		return nil
	}
	if err := ts.finish(val, version); err != nil {
		return err
	}
	slots := map[string]int{}
	for slot := range tableSlots {
		t, _, err := ts.get(slot)
		if err != nil && !errors.Is(err, errDamaged) {
			return err
		}
		if err == nil && t != nil {
			slots[t.scope()] = slot
		}
	}
	ts.slots, ts.version = slots, version
	return nil
}

// get returns the table in a slot, nil if the slot was never used.
func (ts *tables) get(slot int) (table, uint32, error) {
	val, cas, err := ts.kv.Get(tableKey(slot))
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
