package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func testScopes(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(2)
	p := Even(addrs)
	w.must(s, 1, p)
	p.Scope = "other"
	w.must(s, 2, p)
	w.must(s, 3, p)
	for _, l := range w.Loads("other", addrs) {
		if l.Requests != 1 {
			t.Fatalf("scope other: %v", l)
		}
	}
	s.Release(w.now, 1)
	w.want(addrs, 0, 0)
}

// testScopesInTurn uses more scopes than a store has room for, one after another, while one scope has a lease all the
// time.
func testScopesInTurn(t *testing.T, w *world) {
	const scopes = 400
	a, b, addrs := w.NewOwner(), w.NewOwner(), Addrs(2)
	w.must(a, 1, Even(addrs[:1]))
	for i := range scopes {
		p, id := Even(addrs), lb.LeaseID(i+2)
		p.Scope = fmt.Sprintf("scope %d", i)
		w.must(a, id, p)
		w.must(b, id, p)
		for _, l := range w.Loads(p.Scope, addrs) {
			if l.Requests != 1 {
				t.Fatalf("scope %d: %v", i, l)
			}
		}
		a.Release(w.now, id)
		b.Release(w.now, id)
		if i%50 == 0 {
			w.pass(time.Second, a, b)
		}
	}
	p := Even(addrs)
	p.Scope = "scope 0"
	w.must(b, scopes+2, p)
	if l := w.Loads(p.Scope, addrs); l[0].Requests+l[1].Requests != 1 {
		t.Fatalf("the first scope again: %v", l)
	}
	w.want(addrs, 1, 0)
}
