package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

func testBudgetShares(t *testing.T, w *world) {
	owners, addrs := []lb.Store{w.NewOwner(), w.NewOwner()}, Addrs(3)
	p := Budgeted(addrs, budget.Limits{Weight: 1}, 0)
	p.Budget.Limits[1].Weight, p.Budget.Limits[2].Weight = 2, 5
	tokens := map[string]int64{}
	for id := range lb.LeaseID(400) {
		p.Budget.Tokens = int64(100 + id*37%900)
		s := owners[id%2]
		addr, g, err := w.reserve(s, id, p)
		if err != nil {
			t.Fatal(err)
		}
		if g.Left != (budget.Left{Tokens: -1, Requests: -1}) {
			t.Fatalf("left of no limits: %+v", g.Left)
		}
		tokens[addr] += p.Budget.Tokens
		s.Release(w.now, id)
	}
	for i, weight := range []int64{1, 2, 5} {
		// By the bound of deficit round robin, shares by weight differ by one request at most.
		if d := tokens[addrs[i]] - tokens[addrs[0]]*weight; d > 1000*weight || d < -1000*weight {
			t.Errorf("tokens by endpoint: %v", tokens)
		}
	}
}

func testBudgetBucket(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 2000)
	for id := range lb.LeaseID(6) {
		w.must(s, id, p)
	}
	g := w.refused(s, 6, p)
	if g.Expected != 20*time.Second || g.Left.Tokens != 0 {
		t.Fatalf("beside the refusal: %+v", g)
	}
	w.tick(19 * time.Second)
	w.expects(s, 7, p, time.Second)
	w.tick(time.Second)
	w.must(s, 8, p)
	w.must(s, 9, p)
	w.expects(s, 10, p, 20*time.Second)
	w.pass(100*time.Second, s)
	for id := range lb.LeaseID(6) {
		_, g, err := w.reserve(s, 100+id, p)
		if want := float64(4000 - id/2*2000); err != nil || g.Left.Tokens != want {
			t.Fatalf("%v, %g tokens left, want %g", err, g.Left.Tokens, want)
		}
	}
	w.refused(s, 11, p)
	w.want(addrs, 7, 7)
}

// A share of a rate may be next to nothing. Then the wait that is expected is bounded.
func testBudgetNever(t *testing.T, w *world) {
	s := w.NewOwner()
	for i, rate := range []float64{1e-3, 1e-9, 1e-300} {
		p := Budgeted(Addrs(3)[i:i+1], budget.Limits{Weight: 1, Tokens: rate}, 4_000_000_000)
		w.must(s, lb.LeaseID(2*i+1), p)
		g := w.refused(s, lb.LeaseID(2*i+2), p)
		if g.Expected < 1000*24*time.Hour || g.Expected > 1<<40*time.Millisecond {
			t.Errorf("with %g tokens a minute a request is expected to be placed in %v", rate, g.Expected)
		}
	}
}

func testBudgetOwners(_ *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 3000)
	w.must(a, 1, p)
	w.must(b, 1, p)
	w.expects(a, 2, p, 30*time.Second)
	w.expects(b, 2, p, 30*time.Second)
}

func testBudgetRequests(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Requests: 3}, 100_000)
	for id := range lb.LeaseID(3) {
		w.must(s, id, p)
	}
	w.expects(s, 4, p, 20*time.Second)
	w.tick(20 * time.Second)
	w.must(s, 5, p)
	w.refused(s, 6, p)
}

func testBudgetLarge(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	large, small := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 9000), Budgeted(addrs, budget.Limits{}, 100)
	small.Budget.Limits = large.Budget.Limits
	w.must(s, 1, small)
	w.expects(s, 2, large, time.Second)
	w.tick(time.Second)
	w.must(s, 3, large)
	if g := w.refused(s, 4, small); g.Expected != 31*time.Second || g.Left.Tokens != 0 {
		t.Fatalf("beside the refusal: %+v", g)
	}
	w.tick(31 * time.Second)
	w.must(s, 5, small)
}

func testBudgetCaps(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	p := Budgeted(addrs, budget.Limits{Weight: 1}, 10)
	p.Candidates[0].Cap, p.Candidates[1].Cap = 1, 3
	for id := range lb.LeaseID(4) {
		w.must(s, id, p)
	}
	w.want(addrs, 1, 3)
	w.expects(s, 4, p, 250*time.Millisecond) // both have taken several at one time: nothing is known of their pace
	w.tick(time.Second)
	s.Release(w.now, 0)
	w.must(s, 5, p)
	w.refused(s, 6, p)
}

func testBudgetRelease(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 5000)
	p.Candidates[0].Cap = 1
	w.must(s, 1, p)
	s.Release(w.now, 1)
	s.Release(w.now, 1)
	w.want(addrs, 0)
	w.expects(s, 2, p, 40*time.Second)
	s.Release(w.now, 2)
	w.expects(s, 3, p, 40*time.Second)
	s.Release(w.now, 4)
	if _, _, err := w.reserve(s, 4, p); !errors.Is(err, lb.ErrReleased) {
		t.Fatalf("a reservation after its release: %v", err)
	}
}

func testBudgetRestrict(_ *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(2)
	p := Budgeted(addrs, budget.Limits{Weight: 1}, 10)
	w.must(a, 1, p)
	w.must(a, 2, p)
	closed := budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: 5 * time.Second}
	a.Restrict(w.now, "llm", addrs[0], closed)
	for id := range lb.LeaseID(5) {
		w.must(b, id, p)
	}
	w.want(addrs, 1, 6)
	closed.RetryAfter = 3 * time.Second
	b.Restrict(w.now, "llm", addrs[1], closed)
	b.Restrict(w.now, "llm", addrs[0], closed) // it has said more before
	w.expects(a, 9, p, 3*time.Second)
	w.tick(3 * time.Second)
	w.must(a, 10, p)
	w.want(addrs, 1, 7)
	w.tick(2 * time.Second)
	w.must(a, 11, p)
	w.want(addrs, 2, 7)
}

// testBudgetAsks: a target that has closed itself for long is asked after a while, by one request; and at once if it
// was added again.
func testBudgetAsks(_ *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1}, 10)
	closed := budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: time.Hour, MaxClosed: time.Minute}
	w.must(a, 1, p)
	a.Restrict(w.now, "llm", addrs[0], closed)
	w.expects(b, 2, p, time.Minute)
	w.tick(time.Minute)
	w.must(b, 3, p)
	w.expects(a, 4, p, 3*time.Second) // for the answer
	b.Restrict(w.now, "llm", addrs[0], closed)
	w.expects(a, 5, p, time.Minute)
	w.tick(3 * time.Minute)
	w.must(a, 6, p)
	w.expects(b, 7, p, 3*time.Second)
	w.tick(3 * time.Second) // it takes requests again
	w.must(a, 8, p)
	w.must(b, 9, p)
	closed.RetryAfter = 50 * time.Second // as it has said: nothing is to be asked then
	a.Restrict(w.now, "llm", addrs[0], closed)
	b.Restrict(w.now, "llm", addrs[0], budget.Restriction{Reopen: true})
	w.must(a, 10, p)
	w.expects(b, 11, p, 3*time.Second)
	a.Restrict(w.now, "llm", addrs[0], closed)
	w.tick(50 * time.Second)
	w.must(a, 12, p)
	w.must(b, 13, p)
	b.Restrict(w.now, "llm", addrs[0], budget.Restriction{Reopen: true}) // it is open
	w.must(a, 14, p)
	w.must(b, 15, p)
}

func testBudgetShrink(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000, Requests: 60}, 1000)
	w.must(s, 1, p)
	s.Restrict(w.now, "llm", addrs[0], budget.Restriction{Tokens: 400, Requests: -1})
	w.expects(s, 2, p, 6*time.Second)
	s.Restrict(w.now, "llm", addrs[0], budget.Restriction{Tokens: 5000, Requests: 1000})
	w.expects(s, 3, p, 6*time.Second)
	w.tick(6 * time.Second)
	s.Restrict(w.now, "llm", addrs[0], budget.Restriction{Tokens: -1, Requests: 0})
	w.expects(s, 4, p, time.Second)
}

func testBudgetLimits(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 6000}, 1000)
	p.Candidates[0].Cap = 2
	w.must(s, 1, p)
	w.must(s, 2, p)
	w.refused(s, 3, p)
	p = relimited(p, 3, 6000)
	w.must(s, 4, p)
	p = relimited(p, 0, 3000) // half of the bucket is missing, as before
	w.must(s, 5, p)
	w.expects(s, 6, p, 10*time.Second)
	w.tick(10 * time.Second)
	p = relimited(p, 0, 60_000)
	w.must(s, 7, p) // two thirds were missing
	p.Budget.Tokens = 60_000
	w.expects(s, 8, p, 41*time.Second)
	p = relimited(p, 0, 0)
	w.must(s, 9, p)
}

// relimited returns the plan with another cap and rate of its first candidate: what plans share is never changed.
func relimited(p *lb.Plan, limit int64, tokens float64) *lb.Plan {
	q := *p
	q.Candidates, q.Budget.Limits = slices.Clone(p.Candidates), slices.Clone(p.Budget.Limits)
	q.Candidates[0].Cap, q.Budget.Limits[0].Tokens = limit, tokens
	return &q
}

func testBudgetDeadOwner(_ *testing.T, w *world) {
	dead, alive, addrs := w.NewOwner(), w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 60_000}, 30_000)
	p.Candidates[0].Cap = 2
	w.must(dead, 1, p)
	w.must(dead, 2, p)
	p.Budget.Tokens = 1000
	w.refused(alive, 1, p)
	w.pass(TTL+2*time.Second, alive)
	w.want(addrs, 0)
	w.must(alive, 2, p)
	p.Budget.Tokens = 60_000
	w.expects(alive, 3, p, 54*time.Second) // 60,000 were charged 7 s ago, and 1,000 now
}

func testBudgetChurn(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(60)
	p := Budgeted(addrs[:1], budget.Limits{Weight: 1, Tokens: 600}, 600)
	w.must(s, 1, p)
	s.Release(w.now, 1)
	for i := 1; i < 60; i++ {
		id := lb.LeaseID(i + 1)
		w.must(s, id, Budgeted(addrs[i:i+1], budget.Limits{Weight: 1}, 600))
		s.Release(w.now, id)
	}
	w.expects(s, 100, p, time.Minute)
	for round := range 5 { // and all again later: those that are unused are forgotten
		w.pass(3*time.Minute, s)
		for i := range addrs {
			id := lb.LeaseID(1000 + 100*round + i)
			w.must(s, id, Budgeted(addrs[i:i+1], budget.Limits{Weight: 1, Tokens: 600}, 600))
			s.Release(w.now, id)
		}
	}
	w.expects(s, 200, p, time.Minute)
}

func testBudgetScopes(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	p := Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 600}, 600)
	w.must(s, 1, p)
	q := *p
	q.Scope = "other"
	w.must(s, 2, &q)
	s.Settle(w.now, 1, addrs[0], -600, 0)
	w.must(s, 3, p)
	w.expects(s, 4, &q, time.Minute)
}

func testBudgetNone(_ *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	s.Restrict(w.now, "none", addrs[0], budget.Restriction{RetryAfter: time.Hour})
	w.must(s, 1, Even(addrs))
	s.Settle(w.now, 1, addrs[0], 1000, 0)
	s.Restrict(w.now, "llm", addrs[0], budget.Restriction{RetryAfter: time.Hour})
	w.must(s, 2, Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 600}, 600))
	w.must(s, 3, Even(addrs)) // a plan without budgets is placed by cost, and charged nothing
	w.want(addrs, 3)
}
