package memstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

// slots is a process with a clock, and how many requests its owners hold.
type slots struct {
	*memstoretest.Process
	t    *testing.T
	now  time.Duration
	held map[string]int64 // by scope
	next lb.LeaseID
}

func newSlots(t *testing.T) *slots {
	return &slots{Process: memstoretest.NewProcess(t), t: t, now: time.Hour, held: map[string]int64{}}
}

func planFor(scope string) *lb.Plan {
	p := storetest.Even(storetest.Addrs(1))
	p.Scope = scope
	return p
}

// reserve makes a reservation, which must succeed, and returns its lease.
func (w *slots) reserve(s *memstore.Store, scope string) lb.LeaseID {
	w.t.Helper()
	w.next++
	id := w.next
	s.Reserve(w.now, id, planFor(scope), func(_ lb.Grant, err error) {
		if err != nil {
			w.t.Fatalf("reserving at %s: %v", scope, err)
		}
	})
	w.held[scope]++
	return id
}

func (w *slots) release(s *memstore.Store, scope string, id lb.LeaseID) {
	s.Release(w.now, id)
	w.held[scope]--
}

// filled is shared memory with an idle scope in each slot, idle-0 for longest.
var filled = sync.OnceValue(func() *storetest.Memory {
	m := storetest.NewMemory()
	if err := memstore.Prepare(m); err != nil {
		panic(err)
	}
	s := memstore.New(m, 1<<40, storetest.TTL)
	for i := range 256 {
		now := time.Duration(i) * 5 * time.Second
		s.Reserve(now, 1, planFor(fmt.Sprintf("idle-%d", i)), func(lb.Grant, error) {})
		s.Release(now, 1)
	}
	return m
})

// fill assigns each slot to an idle scope.
func (w *slots) fill() {
	w.CopyFrom(filled())
}

// check expects the load of each scope to be what is held there, and no scope to have two slots.
func (w *slots) check() {
	w.t.Helper()
	for scope, n := range w.held {
		if l := w.Loads(scope, storetest.Addrs(1)); l[0].Requests != n {
			w.t.Fatalf("%d in flight at %s, want %d", l[0].Requests, scope, n)
		}
	}
	seen := map[string]string{}
	for key, val := range w.Vals {
		if !strings.Contains(key, "/table/") || len(val) < 16 {
			continue
		}
		name := string(val[len(val)-int(val[12]):])
		if other, ok := seen[name]; ok {
			w.t.Fatalf("%s is in %s and in %s", name, key, other)
		}
		seen[name] = key
	}
}

// A query for the loads of scopes without a slot reads all tables only if a slot was assigned since the last query. An
// unfinished assignment does not hide the scope.
func TestLoadsOfManyScopes(t *testing.T) {
	w := newSlots(t)
	a, reader := w.NewStore(), w.NewStore()
	w.fill()
	gets := 0
	w.OnGet = func(string) { gets++ }
	for range 3 {
		for i := range 1000 {
			l, err := reader.Loads(fmt.Sprintf("gone-%d", i), storetest.Addrs(1), nil)
			if err != nil || l[0] != (lb.Load{}) {
				t.Fatalf("%v, %v", l, err)
			}
		}
	}
	if limit := 3000 + 2*256; gets > limit {
		t.Errorf("%d reads for 3000 queries, want %d at most", gets, limit)
	}
	w.OnGet = nil
	half := errors.New("failed half-way")
	w.SetErr = func(key string) error {
		if strings.Contains(key, "/table/") {
			return half
		}
		return nil
	}
	a.Reserve(w.now, 1, planFor("new"), func(_ lb.Grant, err error) {
		if !errors.Is(err, half) {
			t.Fatal(err)
		}
	})
	w.SetErr = nil
	if _, err := reader.Loads("new", storetest.Addrs(1), nil); err != nil {
		t.Fatal(err)
	}
	w.reserve(a, "new")
	if l, err := reader.Loads("new", storetest.Addrs(1), nil); err != nil || l[0].Requests != 1 {
		t.Errorf("%v, %v; want 1 in flight", l, err)
	}
}

// If no slot is unused, a new scope gets that of an idle scope.
func TestScopesInTurn(t *testing.T) {
	w := newSlots(t)
	a, b := w.NewStore(), w.NewStore()
	refused := 0
	for i := range lb.LeaseID(1000) {
		p, granted := planFor(fmt.Sprintf("outbound|80||svc-%d.default.svc.cluster.local", i)), int64(0)
		for _, s := range []*memstore.Store{a, b} {
			s.Reserve(w.now, i, p, func(_ lb.Grant, err error) {
				if err == nil {
					granted++
				}
			})
		}
		if granted < 2 {
			refused++
		} else if l := w.Loads(p.Scope, storetest.Addrs(1)); l[0].Requests != granted {
			t.Fatalf("%d in flight at scope %d, want %d", l[0].Requests, i, granted)
		}
		a.Release(w.now, i)
		b.Release(w.now, i)
		if w.now += time.Second; i%20 > 0 {
			continue
		}
		if err := errors.Join(a.Heartbeat(w.now), b.Heartbeat(w.now)); err != nil {
			t.Fatal(err)
		}
	}
	if refused > 0 {
		t.Errorf("%d of 1000 scopes were refused", refused)
	}
	if n := a.Scopes(); n > 256+20 {
		t.Errorf("the store has state of %d scopes", n)
	}
}

// A scope with leases keeps its slot, however long they last. Of idle scopes the one that was used last keeps its slot
// longest.
func TestScopesWithLeasesKeepTheirSlots(t *testing.T) {
	w := newSlots(t)
	a, b := w.NewStore(), w.NewStore()
	w.fill()
	for i := range 200 {
		w.reserve([]*memstore.Store{a, b}[i%2], fmt.Sprintf("held-%d", i))
	}
	w.check()
	if l := w.slotOf("idle-255"); l == "" {
		t.Error("the scope that was used last lost its slot to one of 200, though 255 were idle for longer")
	}
	for i := range 300 {
		name := fmt.Sprintf("passing-%d", i)
		w.release(b, name, w.reserve(b, name))
		w.now += time.Second
		if err := errors.Join(a.Heartbeat(w.now), b.Heartbeat(w.now)); err != nil {
			t.Fatal(err)
		}
	}
	w.check()
	for i := range 56 {
		w.reserve(a, fmt.Sprintf("more-%d", i))
	}
	w.check()
	a.Reserve(w.now, 1<<40, planFor("one too many"), func(_ lb.Grant, err error) {
		if !errors.Is(err, lb.ErrNoRoom) {
			t.Errorf("with 256 scopes in use: %v", err)
		}
	})
	w.check()
}

// slotOf returns the key of the scope's table, "" if it has none.
func (w *slots) slotOf(scope string) string {
	for key, val := range w.Vals {
		if strings.Contains(key, "/table/") && strings.HasSuffix(string(val), scope) {
			return key
		}
	}
	return ""
}

// Another owner interrupts one that assigns a slot, at any read or write, with a reservation for the same scope, for
// another new scope, or for the scope that is to lose the slot.
func TestRaceForASlot(t *testing.T) {
	others := []string{"new", "other", "idle-0"}
	if testing.Short() {
		others = others[:1]
	}
	for _, other := range others {
		for at := 1; ; at++ {
			w := newSlots(t)
			a, b := w.NewStore(), w.NewStore()
			w.fill()
			steps, met := 0, false
			meet := func(string) {
				if steps++; steps == at && !met {
					met = true
					w.reserve(b, other)
				}
			}
			w.OnGet, w.OnSet = meet, meet
			w.reserve(a, "new")
			w.OnGet, w.OnSet = nil, nil
			w.check()
			if !met {
				if at < 250 {
					t.Fatalf("assigning a slot made only %d reads: nothing was tested", at)
				}
				break
			}
		}
	}
}

// An owner pauses while it assigns a slot, and another owner, to which a better slot is available by then, assigns that
// to the same scope: both count in the same slot.
func TestPauseAssigningASlot(t *testing.T) {
	w := newSlots(t)
	a, b, c := w.NewStore(), w.NewStore(), w.NewStore()
	leases := map[string]lb.LeaseID{}
	for i := range 256 {
		name := fmt.Sprintf("idle-%d", i)
		leases[name] = w.reserve(c, name)
	}
	first := ""
	for name := range leases {
		if w.slotOf(name) == "warmgate/4/table/0" {
			first = name
		}
	}
	for name, id := range leases {
		if name != first {
			w.release(c, name, id)
		}
	}
	paused := false
	w.OnSet = func(key string) {
		if strings.Contains(key, "/table/") && !paused {
			paused = true
			w.release(c, first, leases[first])
			w.reserve(b, "new")
		}
	}
	w.reserve(a, "new")
	w.OnSet = nil
	if !paused || w.slotOf("new") == "" {
		t.Fatal("nothing was tested")
	}
	w.check()
}

// An owner dies after any write while it assigns a slot, and others continue with the same scope and with others.
func TestDeathAssigningASlot(t *testing.T) {
	for _, next := range [][]string{{"new", "other"}, {"other", "new"}, {"idle-0", "new"}, {"other", "another"}} {
		for writes := range 8 {
			w := newSlots(t)
			dying, a, b := w.NewStore(), w.NewStore(), w.NewStore()
			w.fill()
			left := writes
			w.SetErr = func(string) error {
				if left == 0 {
					panic("dead")
				}
				left--
				return nil
			}
			finished := func() (finished bool) {
				defer func() { _ = recover() }()
				dying.Reserve(w.now, 1, planFor("new"), func(lb.Grant, error) {})
				return true
			}()
			w.SetErr = nil
			if finished && writes < 4 {
				t.Fatalf("assigning a slot needed only %d writes: nothing was tested", writes)
			}
			w.reserve(a, next[0])
			w.reserve(b, next[1])
			w.reserve(b, next[0])
			w.reserve(a, next[1])
			for range 7 {
				w.now += time.Second
				if err := errors.Join(a.Heartbeat(w.now), b.Heartbeat(w.now)); err != nil {
					t.Fatal(err)
				}
			}
			w.check()
		}
	}
}
