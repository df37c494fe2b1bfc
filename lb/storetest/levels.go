package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// levels returns what a store tells of the endpoints.
func (w *work) levels(s caller, scope string, addrs []string) []lb.BudgetLevel {
	w.t.Helper()
	var out []lb.BudgetLevel
	calls := 0
	s.Levels(w.now, scope, addrs, func(levels []lb.BudgetLevel, err error) {
		if calls++; err != nil || len(levels) != len(addrs) {
			w.t.Errorf("%d levels of %d addresses, %v", len(levels), len(addrs), err)
		}
		out = levels
	})
	if calls != 1 {
		w.t.Fatalf("done was called %d times", calls)
	}
	return out
}

// testLevels: what one owner does another one sees, in its order of the endpoints. Looking changes nothing.
func testLevels(t *testing.T, w *work) {
	addrs, limits := Addrs(3), budget.Limits{Weight: 1, Tokens: 6000, Requests: 60}
	one, two := w.caller(), w.caller()
	want := func(what string, used budget.Level, requests, tokens int64) {
		t.Helper()
		full := budget.Level{Left: budget.Left{Tokens: 6000, Requests: 60}}
		got := w.levels(two, "llm", []string{addrs[2], addrs[1], "nobody"})
		for i, l := range []budget.Level{used, full, full} {
			if level := got[i].Budget.Level(limits); level != l {
				t.Errorf("%s: endpoint %d: %+v, want %+v", what, i, level, l)
			}
		}
		if got[0].Load != (lb.Load{Requests: requests, Tokens: tokens}) || got[1].Load != (lb.Load{}) ||
			got[2].Load != (lb.Load{}) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	left := func(tokens, requests float64) budget.Level {
		return budget.Level{Left: budget.Left{Tokens: tokens, Requests: requests}}
	}
	want("unknown", left(6000, 60), 0, 0)
	task := w.admit(one, 0, Budgeted([]string{addrs[2]}, limits, 2000))
	used := left(4000, 59)
	for range 2 {
		want("a task", used, 1, 2000)
	}
	w.tick(time.Second)
	want("a second later", left(4100, 60), 1, 2000)
	one.Restrict(w.now, "llm", addrs[2], budget.Restriction{Tokens: 50, Requests: 0, RetryAfter: 3 * time.Second})
	closed := left(50, 0)
	closed.Closed, closed.Over = 3*time.Second, true
	want("restricted", closed, 1, 2000)
	w.complete(two, task.ID, 1990, lb.TaskCompleted)
	w.tick(time.Second)
	closed = left(160, 1)
	closed.Closed, closed.Deficit = 2*time.Second, 10 // tokens that it was charged too much
	want("completed", closed, 0, 0)
	w.tick(2 * time.Second)
	open := left(360, 3)
	open.Deficit = 10
	want("open again", open, 0, 0)
	w.tick(2 * time.Minute)
	want("refilled", left(6000, 60), 0, 0)
	for _, l := range w.levels(two, "no such scope", addrs) {
		if l.Load != (lb.Load{}) || l.Budget.Level(limits) != left(6000, 60) {
			t.Errorf("of another scope: %+v", l)
		}
	}
}
