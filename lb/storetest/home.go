package storetest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// testHome: requests of a session go to the first endpoint in its order that carries less than its bound, over all
// owners, and to the next one that is not full.
func testHome(t *testing.T, w *world) {
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(4)
	p := WithHome(Even(addrs), 1.25, 2, 0, 3, 1)
	for i, want := range []int{2, 0, 3, 2, 0, 3, 2, 0} {
		owner := []lb.Store{a, b}[i%2]
		if addr := w.must(owner, lb.LeaseID(i+1), p); addr != addrs[want] {
			t.Fatalf("request %d is at %s, want %s: the loads are %v", i+1, addr, addrs[want], w.Loads("llm", addrs))
		}
	}
	w.want(addrs, 3, 0, 3, 2)
	for i := range 8 {
		[]lb.Store{a, b}[i%2].Release(w.now, lb.LeaseID(i+1))
	}
	unbound := WithHome(Even(addrs), math.Inf(1), 2, 0, 3, 1)
	unbound.Scope = "unbound"
	for i := range unbound.Candidates {
		unbound.Candidates[i].Weight = [4]float64{1, 1, 1e-6, 1}[i]
	}
	for i := range 8 {
		if addr := w.must(a, lb.LeaseID(10+i), unbound); addr != addrs[2] {
			t.Fatalf("without a bound request %d is at %s", i, addr)
		}
	}
	capped := WithHome(Even(addrs), math.Inf(1), 2, 0, 3, 1)
	capped.Scope = "capped"
	for i := range capped.Candidates {
		capped.Candidates[i].Cap = 1
	}
	for i, want := range []int{2, 0, 3, 1} {
		if addr := w.must(a, lb.LeaseID(20+i), capped); addr != addrs[want] {
			t.Fatalf("with caps request %d is at %s, want %s", i, addr, addrs[want])
		}
	}
}

// leaseOf is a lease of one of several owners.
type leaseOf struct {
	owner int
	id    lb.LeaseID
}

// testHomeBound: whatever order sessions have, no endpoint gets more than its bound, in requests and in tokens.
func testHomeBound(t *testing.T, w *world) {
	const factor, endpoints = 1.3, 5
	owners, addrs := []lb.Store{w.NewOwner(), w.NewOwner(), w.NewOwner()}, Addrs(endpoints)
	rng := rand.New(rand.NewPCG(7, 11))
	var held []leaseOf
	for id := range lb.LeaseID(400) {
		p := WithHome(Even(addrs), factor)
		if p.Unit = lb.Unit(id / 200); p.Unit == lb.Tokens {
			p.Tokens = 100
		}
		for _, i := range rng.Perm(endpoints) {
			p.Home.Order = append(p.Home.Order, uint16(i))
		}
		if rng.IntN(3) > 0 { // most requests are of one session
			p.Home.Order = []uint16{3, 1, 4, 0, 2}
		}
		before := w.Loads("llm", addrs)
		at := rng.IntN(len(owners))
		_, g, err := w.reserve(owners[at], id+1, p)
		if err != nil {
			t.Fatal(err)
		}
		total := lb.Load{Requests: 1, Tokens: 100}
		for _, l := range before {
			total.Requests, total.Tokens = total.Requests+l.Requests, total.Tokens+l.Tokens
		}
		most := int64(math.Ceil(factor * float64(total.Requests) / endpoints))
		tokens := factor*float64(total.Tokens)/endpoints + 100
		if p.Unit == lb.Requests && g.Load.Requests > most || p.Unit == lb.Tokens && float64(g.Load.Tokens) > tokens {
			t.Fatalf("request %d makes %+v of %+v", id, g.Load, total)
		}
		held = append(held, leaseOf{at, id + 1})
		if len(held) > 40 || id == 199 {
			for n := len(held); n > 30 || id == 199 && n > 0; n-- {
				i := rng.IntN(n)
				owners[held[i].owner].Release(w.now, held[i].id)
				held[i] = held[n-1]
				held = held[:n-1]
			}
		}
	}
}

// testHomeTies: without a load factor the order settles ties only.
func testHomeTies(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(3)
	p := WithHome(Even(addrs), 0, 2, 0)
	for i, want := range []int{2, 0, 1, 2, 0, 1} {
		if addr := w.must(s, lb.LeaseID(i+1), p); addr != addrs[want] {
			t.Fatalf("request %d is at %s, want %s", i+1, addr, addrs[want])
		}
	}
}
