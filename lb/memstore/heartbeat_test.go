package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// memory returns prepared shared memory.
func memory(t *testing.T) *storetest.Memory {
	t.Helper()
	kv := storetest.NewMemory()
	if err := Prepare(kv); err != nil {
		t.Fatal(err)
	}
	return kv
}

// granted makes a reservation, which must succeed.
func granted(t *testing.T, s *Store, now time.Duration, id lb.LeaseID, scope string) {
	t.Helper()
	p := storetest.Even(storetest.Addrs(1))
	p.Scope = scope
	s.Reserve(now, id, p, func(_ lb.Grant, err error) {
		if err != nil {
			t.Fatalf("lease %d: %v", id, err)
		}
	})
}

// directoryOf returns an owner directory of the given owners, with heartbeats at an hour.
func directoryOf(owners ...uint64) directory {
	d := newDirectory()
	for _, owner := range owners {
		d = append(d, make([]byte, directoryEntry)...)
		wire.PutUint32(d, 4, uint32(d.size()+1))
		d.set(d.size()-1, owner, time.Hour)
	}
	return d
}

// An owner is alive up to the TTL after its latest heartbeat.
func TestAlive(t *testing.T) {
	d, ttl := directoryOf(5, 6), 5*time.Second
	for after, want := range map[time.Duration]bool{-time.Second: true, 0: true, ttl: true, ttl + 1: false} {
		if got := d.alive(6, time.Hour+after, ttl); got != want {
			t.Errorf("%v after its heartbeat: %v", after, got)
		}
	}
	if d.alive(7, time.Hour, ttl) || directoryOf().alive(7, time.Hour, ttl) {
		t.Error("an unknown owner is alive")
	}
}

// An owner keeps its index while it holds that, and gets a free or a new one otherwise, up to maxOwners.
func TestIndexOfAnOwner(t *testing.T) {
	full := make([]uint64, maxOwners)
	for i := range full {
		full[i] = uint64(1000 + i)
	}
	for _, c := range []struct {
		name   string
		owners []uint64
		before int
		want   int
		size   int
	}{
		{"the first", nil, -1, 0, 1},
		{"its own", []uint64{5, 9}, 1, 1, 2},
		{"another's by now", []uint64{9, 5}, 1, 2, 3},
		{"none", []uint64{5, 6}, -1, 2, 3},
		{"one behind the last", []uint64{5, 6}, 2, 2, 3},
		{"far behind", []uint64{5, 6}, 77, 2, 3},
		{"a free one", []uint64{5, 0, 6, 0}, -1, 1, 4},
		{"the last one that there may be", full[:maxOwners-1], -1, maxOwners - 1, maxOwners},
		{"of a full directory", append([]uint64{9}, full[1:]...), 0, 0, maxOwners},
	} {
		d, index, err := directoryOf(c.owners...).register(9, c.before, 2*time.Hour)
		if err != nil || index != c.want || d.size() != c.size || d.owner(index) != 9 ||
			d.heartbeat(index) != 2*time.Hour || d.check() != nil {
			t.Errorf("%s: index %d of %d, %v, want %d of %d", c.name, index, d.size(), err, c.want, c.size)
		}
	}
	if _, _, err := directoryOf(full...).register(1<<40, -1, 0); !errors.Is(err, lb.ErrNoRoom) {
		t.Errorf("one owner more: %v", err)
	}
}

// A lease that was released before it was reserved is refused until the TTL has passed.
func TestReleasedEarlyIsForgotten(t *testing.T) {
	for after, want := range map[time.Duration]error{
		storetest.TTL - 1: lb.ErrReleased, storetest.TTL: nil, storetest.TTL + 1: nil,
	} {
		s := New(memory(t), 1, storetest.TTL)
		s.Release(time.Hour, 7)
		if err := s.Heartbeat(time.Hour + after); err != nil {
			t.Fatal(err)
		}
		s.Reserve(time.Hour+after, 7, storetest.Even(storetest.Addrs(1)), func(_ lb.Grant, err error) {
			if !errors.Is(err, want) {
				t.Errorf("%v later: %v, want %v", after, err, want)
			}
		})
	}
}

// Tables are swept every second, by whichever owner is first, and at once if the clock was set back.
func TestSweepIsDue(t *testing.T) {
	for after, want := range map[time.Duration]bool{
		0: false, sweepEvery - 1: false, sweepEvery: true, sweepEvery + 1: true, -1: true, -time.Minute: true,
	} {
		kv := memory(t)
		if err := New(kv, 1, storetest.TTL).Heartbeat(time.Hour); err != nil {
			t.Fatal(err)
		}
		now := time.Hour + after
		if err := New(kv, 2, storetest.TTL).Heartbeat(now); err != nil {
			t.Fatal(err)
		}
		if got := directory(kv.Vals[directoryKey]).sweptAt() == now; got != (want || after == 0) {
			t.Errorf("%v after a sweep: swept %v", after, got)
		}
	}
}

// An owner without a heartbeat for longer than the TTL is removed from the directory and from its tables, and counted.
func TestDeadOwnersAreRemoved(t *testing.T) {
	for after, want := range map[time.Duration]int{storetest.TTL: 3, storetest.TTL + 1: 1} {
		kv := memory(t)
		var stores []*Store
		for owner := range uint64(3) {
			s := New(kv, owner+1, storetest.TTL)
			granted(t, s, time.Hour, 1, "a")
			granted(t, s, time.Hour, 2, "b")
			stores = append(stores, s)
		}
		now := time.Hour + after
		if err := stores[1].Heartbeat(now); err != nil {
			t.Fatal(err)
		}
		if n, err := stores[1].Owners(now); err != nil || n != want {
			t.Errorf("after %v: %d owners, %v, want %d", after, n, err, want)
		}
		alive := 0
		for i, d := 0, directory(kv.Vals[directoryKey]); i < d.size(); i++ {
			if d.owner(i) != 0 {
				alive++
			}
		}
		stats := stores[1].Stats
		if alive != want || stats.Returned != uint64(3-want) || stats.Corrected != 0 || stats.Retries != 0 {
			t.Errorf("after %v: %d owners in the directory, %+v", after, alive, stats)
		}
		for _, scope := range []string{"a", "b"} {
			tab := table(kv.Vals[tableKey(stores[1].ledger.scopes[scope].slot)])
			if tab.members() != want || tab.loadOf(0).Requests != int64(want) || tab.memberOf(2) < 0 {
				t.Errorf("after %v: table %s has %d members and %d requests", after, scope, tab.members(),
					tab.loadOf(0).Requests)
			}
		}
	}
}

// Owners that die while others sweep are counted once, and a table that changes during the sweep is read again.
func TestSweepIsRepeated(t *testing.T) {
	kv := memory(t)
	a, b := New(kv, 1, storetest.TTL), New(kv, 2, storetest.TTL)
	granted(t, a, time.Hour, 1, "a")
	granted(t, b, time.Hour, 1, "a")
	key, once := tableKey(a.ledger.scopes["a"].slot), true
	now := time.Hour + storetest.TTL + 1
	kv.OnSet = func(k string) {
		if k == key && once { // another owner writes between the read and the write
			once = false
			val, cas, _ := kv.Get(key)
			if err := kv.Set(key, val, cas); err != nil {
				t.Error(err)
			}
		}
	}
	retries := b.Stats.Retries
	if err := b.sweeper.sweep(now); err != nil {
		t.Fatal(err)
	}
	if b.Stats.Retries != retries+1 || b.Stats.Returned != 2 {
		t.Errorf("%+v", b.Stats)
	}
	if tab := table(kv.Vals[key]); tab.members() != 0 || !tab.isIdle() {
		t.Errorf("%d members, %v in flight", tab.members(), tab.loadOf(0))
	}
}

// A scope without leases is forgotten once its slot is another's, and one with leases is counted there again.
func TestScopesAreForgotten(t *testing.T) {
	kv := memory(t)
	s := New(kv, 1, storetest.TTL)
	for id, scope := range []string{"idle", "held", "lost"} {
		granted(t, s, time.Hour, lb.LeaseID(id+1), scope)
	}
	s.Release(time.Hour, 1)
	s.Release(time.Hour, 3)
	if err := s.Heartbeat(time.Hour); err != nil || s.Scopes() != 3 {
		t.Fatalf("%d scopes, %v", s.Scopes(), err)
	}
	lost := s.ledger.scopes["lost"].slot
	if err := kv.Set(tableKey(lost), newTable("other"), 0); err != nil {
		t.Fatal(err)
	}
	held := s.ledger.scopes["held"].slot
	if err := kv.Set(tableKey(held), newTable("held"), 0); err != nil { // without its members
		t.Fatal(err)
	}
	if err := s.Heartbeat(time.Hour); err != nil || s.Scopes() != 2 || s.ledger.scopes["lost"] != nil {
		t.Errorf("%d scopes, %v", s.Scopes(), err)
	}
	tab := table(kv.Vals[tableKey(held)])
	if tab.memberOf(1) != 0 || tab.find(lb.EndpointHash(storetest.Addrs(1)[0])) == noRow ||
		tab.loadOf(0).Requests != 1 {
		t.Errorf("%d members, %d rows", tab.members(), tab.rows())
	}
	idle := table(kv.Vals[tableKey(s.ledger.scopes["idle"].slot)])
	if idle.memberOf(1) != 0 || !idle.isIdle() {
		t.Errorf("the idle scope has %d members", idle.members())
	}
}
