package storetest

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

func testBudgetSettle(_ *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(2)
	p := Budgeted(addrs[:1], budget.Limits{Weight: 1, Tokens: 6000}, 3000)
	w.must(a, 1, p)
	a.Settle(w.now, 1, addrs[0], 2000, 0)
	w.expects(b, 2, p, 20*time.Second)
	a.Settle(w.now, 1, addrs[0], -1000, 0)
	w.expects(b, 2, p, 10*time.Second)
	a.Settle(w.now, 1, addrs[0], -100_000, 0) // never more than full
	w.must(b, 3, p)
	w.must(b, 4, p)
	w.expects(b, 5, p, 30*time.Second)
	b.Settle(w.now, 4, addrs[1], 1000, 0) // nothing is known of that one
	w.expects(b, 6, p, 30*time.Second)
}

// testBudgetUnused: what a request was charged that its endpoint has never seen is given back with its place, or
// charged to another one.
func testBudgetUnused(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(3)
	limits := budget.Limits{Weight: 1, Tokens: 6000, Requests: 1}
	p, q := Budgeted(addrs[:1], limits, 6000), Budgeted(addrs[1:2], limits, 0)
	w.must(s, 1, p)
	w.expects(s, 2, p, time.Minute)
	s.Settle(w.now, 1, addrs[0], -6000, -1)
	w.must(s, 3, q)
	s.Settle(w.now, 3, addrs[1], 0, -1)
	s.Settle(w.now, 1, addrs[1], 3000, 1) // serves in its place
	w.expects(s, 4, q, time.Minute)
	s.Release(w.now, 1)
	w.must(s, 5, p)
	s.Settle(w.now, 5, addrs[0], -6000, -1)
	s.Settle(w.now, 5, addrs[2], 6000, 1) // nothing is known of that one, so it is charged nothing
	w.must(s, 6, p)
	s.Settle(w.now, 5, addrs[0], -6000, -1) // nor is that given back
	w.expects(s, 7, p, time.Minute)
}

// testBudgetUncharged: a lease that the store has not charged, or not any more, corrects nothing.
func testBudgetUncharged(_ *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000, Requests: 1}, 3000)
	w.must(a, 1, p)
	w.must(a, 2, Even(addrs)) // is charged nothing
	for _, id := range []lb.LeaseID{2, 3} {
		a.Settle(w.now, id, addrs[0], -3000, -1)
		b.Settle(w.now, id, addrs[0], 3000, 1)
	}
	b.Settle(w.now, 1, addrs[0], -3000, -1) // of another owner
	a.Release(w.now, 1)
	a.Settle(w.now, 1, addrs[0], -3000, -1)
	w.expects(a, 4, p, time.Minute)
}
