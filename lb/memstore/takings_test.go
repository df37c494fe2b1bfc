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

// An owner stands still at any of its first reads and writes after it has looked for a taking to finish. Meanwhile
// another finishes that, the slot goes to a third scope, and the scope of the taking gets another slot: no second one.
func TestStandingStillFinishingATaking(t *testing.T) {
	for at := range 4 {
		w := newSlots(t)
		a, b := w.newOwner(), w.newOwner()
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

// begin has the owner take a slot for the scope, and fail half-way.
func (w *slots) begin(s *memstore.Store, scope string) {
	half := errors.New("half-way")
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

// pushOut has the scope lose its slot to another one, which is idle then, and come back to a slot of its own.
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

// A scope whose name is too long for a table is refused, and takes nobody's place.
func TestLongScopes(t *testing.T) {
	w := newSlots(t)
	s := w.newOwner()
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

// Two workers use a cluster for the first time at once: one comes in between at any read or write of the other's, with
// beats, which sweep, and with requests. The cap holds.
func TestCapAtFirstUse(t *testing.T) {
	const most = 4
	for at := 1; ; at++ {
		w := newSlots(t)
		a, b := w.newOwner(), w.newOwner()
		plan, granted, id := planFor("llm"), int64(0), lb.LeaseID(0)
		plan.Candidates[0].Cap = most
		ask := func(s *memstore.Store) {
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
				for range most - 1 {
					if err := b.Heartbeat(w.now); err != nil {
						t.Fatal(err)
					}
					ask(b)
					w.now += time.Second
				}
			}
		}
		w.OnGet, w.OnSet = meet, meet
		for range most {
			ask(a)
			if err := a.Heartbeat(w.now); err != nil {
				t.Fatal(err)
			}
		}
		w.OnGet, w.OnSet = nil, nil
		for range most {
			ask(b)
			ask(a)
		}
		if l := w.Loads("llm", storetest.Addrs(1)); granted != most || l[0].Requests != most {
			t.Fatalf("%d requests passed and %v is counted, want %d; the other came at step %d", granted, l, most, at)
		}
		if !met {
			if at < 30 {
				t.Fatalf("first use made only %d steps: nothing was tested", at)
			}
			return
		}
	}
}
