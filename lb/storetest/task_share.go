package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// shared returns a plan over one address that has so many slots, of which the caller may fill some: with fewer than all
// it has a share. Its bucket has 60,000 tokens.
func shared(addrs []string, own, all, tokens int64) *lb.Plan {
	p := slots(addrs, own, tokens)
	p.Budget.AgeBonus, p.Budget.MaxHint, p.Budget.OwnCaps = 10_000, 5*time.Second, own < all
	return p
}

// mustWait schedules a task and expects that it is refused, for however long.
func (w *work) mustWait(s caller, key uint64, p *lb.Plan) {
	w.t.Helper()
	if task, err := w.schedule(s, key, p); !errors.Is(err, lb.ErrOverBudget) {
		w.t.Fatalf("task with key %d: %+v, %v", key, task, err)
	}
}

// testTaskSharePlaces: tasks that wait at their caller's share make room for any other that is to be remembered, the
// latest of them first. Those that wait for anything else make room for none.
func testTaskSharePlaces(_ *testing.T, w *work) {
	const ms = time.Millisecond
	s, addrs := w.caller(), Addrs(1)
	own, last := shared(addrs, 2, 100, 1), uint64(budget.MaxRefusals)
	all := func(tokens int64) *lb.Plan { return shared(addrs, 100, 100, tokens) }
	w.admit(s, 0, own)
	w.tick(400 * ms)
	w.admit(s, 0, own)
	w.admit(s, 0, all(59_999))
	for key := uint64(1); key <= last; key++ {
		w.wait(s, key, own, min(time.Duration(key)*400, 5000)*ms)
	}
	w.wait(s, 101, all(5000), 5000*ms)
	w.wait(s, 1, own, 400*ms)
	w.wait(s, last-1, own, 5000*ms)
	w.wait(s, last, own, 5001*ms) // is not remembered any more
	w.wait(s, last, own, 5401*ms)
	w.tick(time.Second)
	w.wait(s, 102, all(100), 4100*ms) // behind the first one
	for key := uint64(103); key <= 100+last; key++ {
		w.wait(s, key, all(1), time.Duration(4101+key-103)*ms)
	}
	for key := uint64(1); key <= last; key++ {
		w.mustWait(s, key, own)
	}
	w.mustWait(s, 200, all(1))
	w.wait(s, 102, all(100), 4100*ms)
	w.wait(s, 100+last, all(1), 4162*ms)
}

// testTaskShareAhead: who waits at its own share is before others that do, and not before those that have room in
// theirs, or none.
func testTaskShareAhead(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	own, all := shared(addrs, 1, 2, 10), shared(addrs, 2, 2, 10)
	w.admit(s, 0, all)
	w.tick(400 * time.Millisecond)
	w.admit(s, 0, all)
	for range 3 {
		w.wait(s, 1, own, 400*time.Millisecond)
		w.wait(s, 2, own, 800*time.Millisecond)
		w.wait(s, 3, own, 1200*time.Millisecond)
		w.wait(s, 4, all, 400*time.Millisecond)
		w.wait(s, 5, all, 800*time.Millisecond)
		w.wait(s, 6, own, 2400*time.Millisecond)
	}
}

// testTaskShareWaits: the wait of who is kept out by its share counts from when it came, once there is room in that.
func testTaskShareWaits(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	first := w.admit(s, 0, shared(addrs, 1, 2, 60_000))
	w.wait(s, 1, shared(addrs, 1, 2, 10_000), 10*time.Second)
	w.tick(time.Second)
	w.complete(s, first.ID, -1, lb.TaskCompleted)
	w.wait(s, 1, shared(addrs, 1, 2, 10_000), 9*time.Second)
	w.wait(s, 2, shared(addrs, 2, 2, 1), 9001*time.Millisecond)
}
