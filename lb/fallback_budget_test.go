package lb_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
)

// Without the remote store a gateway uses its share of every rate, less what it has used before.
func TestFallbackWithBudgets(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	if err := l.local.Heartbeat(l.now); err != nil {
		t.Fatal(err)
	}
	plan := storetest.Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 1000)
	l.reserve(1, plan)
	l.remote.answer(1, lb.Grant{Index: 0}, nil) // the one owner of this gateway is registered from now on
	l.remote.owners = 2
	l.reserve(2, plan)
	l.remote.answer(2, lb.Grant{Index: 0}, nil)

	l.remote.down = true
	if o := l.reserve(3, plan); o.err != nil {
		t.Fatalf("half of the gateway's half is left: %v", o.err)
	}
	o := l.reserve(4, plan)
	if !errors.Is(o.err, lb.ErrOverBudget) || o.grant.Expected != 10*time.Second {
		t.Fatalf("%v, expected in %v; want %v in 10 s", o.err, o.grant.Expected, lb.ErrOverBudget)
	}
	l.Settle(l.now, 3, addrs[0], -1000, 0)
	if o := l.reserve(5, plan); o.err != nil {
		t.Fatalf("after a correction: %v", o.err)
	}
	l.Restrict(l.now, "llm", addrs[0], budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Minute})
	if o := l.reserve(6, plan); o.grant.Expected != time.Minute {
		t.Fatalf("expected in %v after a restriction", o.grant.Expected)
	}
	if slices.ContainsFunc(l.remote.log, func(call string) bool { return call[:4] == "rest" }) {
		t.Fatalf("a store that is down was called: %v", l.remote.log)
	}
}

func TestRefusedByBudgetsIsNoFallback(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	o := l.reserve(1, storetest.Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 1000))
	l.remote.answer(1, lb.Grant{Expected: time.Second}, lb.ErrOverBudget)
	if !errors.Is(o.err, lb.ErrOverBudget) || o.grant.Expected != time.Second || len(l.fallback) > 0 {
		t.Fatalf("%+v, fallback %v", o, l.fallback)
	}
}

func TestBothStoresAreCorrected(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	plan := storetest.Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 1000)
	l.reserve(1, plan)
	l.remote.answer(1, lb.Grant{Index: 0}, nil)
	l.remote.log = nil
	l.Settle(l.now, 1, addrs[0], 5000, 0)
	l.Restrict(l.now, "llm", addrs[0], budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Second})
	want := []string{"settle 1 " + addrs[0] + " 5000 0", "restrict llm " + addrs[0]}
	if !slices.Equal(l.remote.log, want) {
		t.Errorf("remote: %v, want %v", l.remote.log, want)
	}
	l.remote.down = true
	if o := l.reserve(2, plan); o.grant.Expected != 10*time.Second {
		t.Errorf("local: expected in %v, want 10 s", o.grant.Expected)
	}
}

// A lease that was granted without the remote store was not charged there, also once that has adopted it: corrections
// are for the id under which it knows the lease. Of what the remote store has charged the embedded one corrects what it
// has charged itself.
func TestEachStoreCorrectsWhatItHasCharged(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	if err := l.local.Heartbeat(l.now); err != nil {
		t.Fatal(err)
	}
	plan := storetest.Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 1000)
	l.remote.down = true
	if o := l.reserve(1, plan); o.err != nil {
		t.Fatal(o.err)
	}
	l.remote.down = false
	l.reserve(2, plan)
	l.remote.answer(2, lb.Grant{Index: 0}, nil)
	l.reserve(3, plan) // has no answer
	l.remote.log = nil
	l.Settle(l.now, 1, addrs[0], -1000, -1)
	l.Settle(l.now, 2, addrs[0], 500, 0)
	l.Settle(l.now, 3, addrs[0], -9000, -1)
	want := []string{
		"settle " + name(1|1<<63) + " " + addrs[0] + " -1000 -1", "settle 2 " + addrs[0] + " 500 0",
		"settle 3 " + addrs[0] + " -9000 -1",
	}
	if !slices.Equal(l.remote.log, want) {
		t.Errorf("remote: %v, want %v", l.remote.log, want)
	}
	l.remote.down = true
	plan.Budget.Tokens = 6000
	if o := l.reserve(4, plan); o.grant.Left.Tokens != 4500 {
		t.Errorf("local: %v are left, want 4500", o.grant.Left.Tokens)
	}
}

// Tasks are in the remote store, and stay valid there while it does not answer.
func TestTasksAreInTheRemoteStore(t *testing.T) {
	l, plan := newFallback(t), storetest.Budgeted(storetest.Addrs(1), budget.Limits{Weight: 1}, 10)
	var errs []error
	calls := func() {
		errs = nil
		l.Schedule(l.now, 7, time.Second, plan, func(_ lb.Task, err error) { errs = append(errs, err) })
		l.Complete(l.now, "llm", lb.TaskID{3}, lb.TaskUse{Tokens: 5}, func(_ lb.TaskEnd, err error) {
			errs = append(errs, err)
		})
		l.Renew(l.now, "llm", lb.TaskID{4}, time.Second, func(_ bool, err error) { errs = append(errs, err) })
		l.Overrides(l.now, "llm", nil, func(_ []lb.Override, err error) { errs = append(errs, err) })
		l.Levels(l.now, "llm", storetest.Addrs(2), func(_ []lb.BudgetLevel, err error) { errs = append(errs, err) })
	}
	calls()
	want := []string{"schedule 7", "complete 3 5", "renew 4", "overrides llm", "levels 2"}
	if !slices.Equal(l.remote.log, want) {
		t.Errorf("calls %v, want %v", l.remote.log, want)
	}
	if !slices.Equal(errs, make([]error, len(want))) {
		t.Error(errs)
	}
	l.remote.down = true
	calls()
	if len(l.remote.log) != len(want) || !slices.Equal(errs, slices.Repeat([]error{lb.ErrRemoteDown}, len(want))) {
		t.Errorf("while it is down: %v, %v", l.remote.log, errs)
	}
	l.wantLocal(storetest.Addrs(1), 0)
}
