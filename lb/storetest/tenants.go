package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
)

// tenantLoad returns what the tenant of the plan has in flight.
func (w *world) tenantLoad(p *lb.Plan) lb.Load {
	return w.Loads(tenants, []string{p.Candidates[0].Addr})[0]
}

func testTenantsApart(t *testing.T, w *world) {
	s := w.NewOwner()
	tokens := TenantPlan(1, budget.Limits{Tokens: 6000}, 0, 4000)
	w.must(s, 1, tokens)
	w.expects(s, 2, tokens, 20*time.Second)
	w.must(s, 3, TenantPlan(2, budget.Limits{Tokens: 6000}, 0, 4000))
	requests := TenantPlan(3, budget.Limits{Requests: 2}, 0, 10)
	w.must(s, 4, requests)
	w.must(s, 5, requests)
	w.expects(s, 6, requests, 30*time.Second)
	inFlight := TenantPlan(4, budget.Limits{}, 2, 10)
	w.must(s, 7, inFlight)
	w.must(s, 8, inFlight)
	w.refused(s, 9, inFlight)
	if l := w.tenantLoad(inFlight); l != (lb.Load{Requests: 2, Tokens: 20}) {
		t.Errorf("in flight: %+v", l)
	}
	s.Release(w.now, 7)
	w.must(s, 10, inFlight)
	w.pass(20*time.Second, s)
	w.must(s, 11, tokens)
}

func testTenantOwners(t *testing.T, w *world) {
	a, b := w.NewOwner(), w.NewOwner()
	p := TenantPlan(1, budget.Limits{Tokens: 1000}, 3, 300)
	w.must(a, 1, p)
	_, g, err := w.reserve(b, 1, p)
	if want := (budget.Left{Tokens: 400, Requests: -1}); err != nil || g.Left != want || g.Load.Requests != 2 {
		t.Fatalf("%+v, %v; want %+v", g, err, want)
	}
	again, g, err := w.reserve(b, 1, p)
	if err != nil || again != p.Candidates[0].Addr || g.Load.Requests != 2 {
		t.Fatalf("reserved again: %s %+v, %v", again, g, err)
	}
	w.must(b, 2, p)
	w.refused(a, 2, p)
	b.Release(w.now, 1)
	b.Release(w.now, 1)
	if l := w.tenantLoad(p); l.Requests != 2 {
		t.Errorf("in flight: %+v", l)
	}
	w.expects(a, 3, p, 12*time.Second) // there are 100 tokens
}

func testTenantSettle(t *testing.T, w *world) {
	a, b := w.NewOwner(), w.NewOwner()
	p := TenantPlan(1, budget.Limits{Tokens: 6000}, 0, 1000)
	addr := p.Candidates[0].Addr
	a.Settle(w.now, 1, addr, 1000, 0) // nothing is known of it
	w.must(a, 1, p)
	a.Settle(w.now, 1, addr, 4500, 0)
	w.expects(b, 2, p, 5*time.Second)
	a.Settle(w.now, 1, addr, -500, 0)
	w.must(b, 3, p)
	b.Restrict(w.now, tenants, addr, budget.Restriction{Tokens: -1, Requests: -1, RetryAfter: 50 * time.Second})
	w.expects(a, 4, p, 50*time.Second)
}

func testTenantReleaseFirst(t *testing.T, w *world) {
	s, p := w.NewOwner(), TenantPlan(1, budget.Limits{Tokens: 1000}, 1, 1000)
	s.Release(w.now, 1)
	if _, _, err := w.reserve(s, 1, p); !errors.Is(err, lb.ErrReleased) {
		t.Fatalf("a request that was released is answered with %v", err)
	}
	w.must(s, 2, p)
}

func testTenantDeadOwner(t *testing.T, w *world) {
	dead, s := w.NewOwner(), w.NewOwner()
	p := TenantPlan(1, budget.Limits{Tokens: 60_000}, 2, 30_000)
	w.must(dead, 1, p)
	w.must(dead, 2, p)
	w.refused(s, 1, p)
	w.pass(TTL+2*time.Second, s)
	if l := w.tenantLoad(p); l.Requests != 0 {
		t.Fatalf("a dead owner has %+v in flight", l)
	}
	w.expects(s, 2, p, 30*time.Second-(TTL+2*time.Second)) // its charges stay
}

// Each tenant is counted by itself, whatever the number of others.
func testTenantsMany(t *testing.T, w *world) {
	const n = 1000
	s, plans := w.NewOwner(), make([]*lb.Plan, n)
	for i := range plans {
		plans[i] = TenantPlan(i, budget.Limits{Tokens: 6000}, 1, 100)
		w.must(s, lb.LeaseID(i+1), plans[i])
	}
	for i, p := range plans {
		w.refused(s, lb.LeaseID(n+i+1), p)
	}
	for i, p := range plans {
		s.Release(w.now, lb.LeaseID(i+1))
		_, g, err := w.reserve(s, lb.LeaseID(2*n+i+1), p)
		if want := (budget.Left{Tokens: 5800, Requests: -1}); err != nil || g.Left != want || g.Load.Requests != 1 {
			t.Fatalf("tenant %d: %+v, %v; %+v should be left", i, g, err, want)
		}
	}
}

// However many others come and go, a store remembers who has requests in flight, and who has used up its budget.
func testTenantsInUse(t *testing.T, w *world) {
	s := w.NewOwner()
	spent := TenantPlan(1, budget.Limits{Tokens: 1000}, 0, 100_000)
	busy := TenantPlan(2, budget.Limits{Tokens: 6000}, 1, 10)
	w.must(s, 1, spent)
	s.Release(w.now, 1)
	w.must(s, 2, busy)
	id := lb.LeaseID(2)
	for minute := range 8 {
		for i := range 300 {
			id++
			w.must(s, id, TenantPlan(1000*(minute+1)+i, budget.Limits{Tokens: 6000}, 1, 10))
			s.Release(w.now, id)
		}
		w.pass(61*time.Second, s)
	}
	w.refused(s, id+1, spent)
	w.refused(s, id+2, busy)
	s.Settle(w.now, 2, busy.Candidates[0].Addr, 6000, 0)
	s.Release(w.now, 2)
	w.expects(s, id+3, busy, 100*time.Millisecond)
	if l := w.tenantLoad(busy); l.Requests != 0 {
		t.Errorf("in flight: %+v", l)
	}
}
