package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// testTaskSpread: callers that are not remembered are told different times, too: those without keys, and those for whom
// there is no room. At the end of the span they begin again.
func testTaskSpread(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	p := aside(addrs, 10)
	p.Candidates[0].Cap = 1
	first := w.admit(s, 0, p)
	w.tick(time.Second)
	w.complete(s, first.ID, -1, lb.TaskCompleted)
	w.admit(s, 0, p)
	for _, seconds := range []time.Duration{1, 2, 3, 4, 5, 6, 1, 2} {
		w.wait(s, 0, p, seconds*time.Second)
	}
	w.tick(1500 * time.Millisecond)
	w.wait(s, 0, p, 1500*time.Millisecond)
	for key := range uint64(budget.MaxRefusals) {
		w.wait(s, 1+key, p, min(time.Duration(1+key), 5)*time.Second)
	}
	w.wait(s, 100, p, 5*time.Second)
	w.wait(s, 101, p, 6*time.Second)
}

// testTaskForgotten: what was set aside for a caller that does not come back is free when it should have come, by what
// it was told at most.
func testTaskForgotten(_ *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	w.admit(s, 0, aside(addrs, 60_000))
	p := aside(addrs, 59_000)
	p.Budget.MaxHint = 2 * time.Second
	w.wait(s, 1, p, 59*time.Second)
	w.tick(3299 * time.Millisecond)
	w.refused(s, 2, aside(addrs, 3000))
	w.tick(time.Millisecond)
	w.admit(s, 0, aside(addrs, 3000))
}

// testTaskShare: a caller whose share of the slots is taken takes no tokens from others, however many of its tasks wait
// and for how long. Below its share it waits for tokens as all do.
func testTaskShare(t *testing.T, w *work) {
	s, addrs := w.caller(), Addrs(1)
	plan := func(tokens, slots int64) *lb.Plan {
		p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 50_000}, tokens)
		p.Budget.AgeBonus, p.Budget.MaxHint, p.Budget.OwnCaps = 1000, 5*time.Second, slots < 10
		p.Candidates[0].Cap = slots
		return p
	}
	waits := func(key uint64, p *lb.Plan) {
		t.Helper()
		if task, err := w.schedule(s, key, p); !errors.Is(err, lb.ErrOverBudget) {
			t.Fatalf("task with key %d: %+v, %v", key, task, err)
		}
	}
	first, second := w.admit(s, 0, plan(1, 2)), w.admit(s, 0, plan(1, 2))
	for range 5 {
		for key := range uint64(budget.MaxRefusals) {
			waits(1+key, plan(1800, 2))
		}
		w.tick(time.Second)
	}
	w.admit(s, 0, plan(49_900, 10))
	w.complete(s, first.ID, -1, lb.TaskCompleted)
	w.complete(s, second.ID, -1, lb.TaskCompleted)
	waits(1, plan(1800, 2))
	w.tick(time.Second)
	waits(0, plan(500, 10)) // they are set aside for the other one
}
