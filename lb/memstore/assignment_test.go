package memstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
)

// An owner pauses at any of its first reads and writes after it has read an unfinished assignment. During the pause
// another owner finishes that, the slot is assigned to a third scope, and the first scope gets another slot. It must
// not get a second one when the paused owner continues.
func TestPauseFinishingAnAssignment(t *testing.T) {
	for at := range 4 {
		w := newSlots(t)
		a, b := w.NewStore(), w.NewStore()
		w.fill()
		w.begin(a, "new")
		steps, looked := 0, false
		meet := func(key string) {
			if looked = looked || strings.HasSuffix(key, "/taking"); !looked {
				return
			}
			if steps++; steps == at+1 {
				w.pushOut(b, "new")
			}
		}
		w.OnGet, w.OnSet = meet, meet
		w.reserve(a, "late")
		w.OnGet, w.OnSet = nil, nil
		w.reserve(a, "new")
		w.check()
	}
}

// begin lets the owner begin to assign a slot to the scope, and fail after the first of its two writes.
func (w *slots) begin(s *memstore.Store, scope string) {
	half := errors.New("failed half-way")
	w.SetErr = func(key string) error {
		if strings.Contains(key, "/table/") {
			return half
		}
		return nil
	}
	s.Reserve(w.now, 1<<40, planFor(scope), func(_ lb.Grant, err error) {
		if !errors.Is(err, half) {
			w.t.Fatal(err)
		}
	})
	w.SetErr = nil
}

// pushOut makes the scope lose its slot to another scope, which is idle afterwards, and then get a slot again.
func (w *slots) pushOut(s *memstore.Store, scope string) {
	w.release(s, scope, w.reserve(s, scope))
	w.now += time.Hour
	for i := 0; w.slotOf(scope) != "" && i < 256; i++ {
		w.now += time.Minute
		name := fmt.Sprintf("passing-%d", i)
		w.release(s, name, w.reserve(s, name))
	}
	w.reserve(s, scope)
}

// A scope whose name is too long for a table is refused and gets no slot.
func TestLongScopes(t *testing.T) {
	w := newSlots(t)
	s := w.NewStore()
	long := strings.Repeat("x", 1<<16)
	for i := range lb.LeaseID(8) {
		s.Reserve(w.now, i, planFor(long), func(_ lb.Grant, err error) {
			if !errors.Is(err, lb.ErrNoRoom) {
				t.Fatalf("reserving at a scope of %d bytes: %v", len(long), err)
			}
		})
	}
	for _, name := range []string{long[:1<<16-1], "", "llm"} {
		w.reserve(s, name)
	}
	used := 0
	for key, val := range w.Vals {
		if strings.Contains(key, "/table/") && len(val) > 1 {
			used++
		}
	}
	if used != 3 {
		t.Errorf("3 scopes have %d slots", used)
	}
}

// Two workers use a cluster for the first time at the same moment: one interrupts the other at any of its reads and
// writes, with heartbeats, which sweep, and with requests. The cap is never exceeded.
func TestCapAtFirstUse(t *testing.T) {
	const limit = 4
	for at := 1; ; at++ {
		w := newSlots(t)
		a, b := w.NewStore(), w.NewStore()
		plan, granted, id := planFor("llm"), int64(0), lb.LeaseID(0)
		plan.Candidates[0].Cap = limit
		reserve := func(s *memstore.Store) {
			id++
			s.Reserve(w.now, id, plan, func(_ lb.Grant, err error) {
				switch {
				case err == nil:
					granted++
				case !errors.Is(err, lb.ErrFull):
					t.Fatal(err)
				}
			})
		}
		steps, met := 0, false
		meet := func(string) {
			if steps++; steps == at && !met {
				met = true
				for range limit - 1 {
					if err := b.Heartbeat(w.now); err != nil {
						t.Fatal(err)
					}
					reserve(b)
					w.now += time.Second
				}
			}
		}
		w.OnGet, w.OnSet = meet, meet
		for range limit {
			reserve(a)
			if err := a.Heartbeat(w.now); err != nil {
				t.Fatal(err)
			}
		}
		w.OnGet, w.OnSet = nil, nil
		for range limit {
			reserve(b)
			reserve(a)
		}
		if l := w.Loads("llm", storetest.Addrs(1)); granted != limit || l[0].Requests != limit {
			t.Fatalf("%d requests passed and %v is counted, want %d; interrupted at step %d", granted, l, limit, at)
		}
		if !met {
			if at < 30 {
				t.Fatalf("first use made only %d steps: nothing was tested", at)
			}
			return
		}
	}
}
