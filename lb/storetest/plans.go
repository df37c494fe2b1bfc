package storetest

import (
	"errors"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// Addrs returns n endpoint addresses.
func Addrs(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "10.0." + string(rune('0'+i/100)) + "." + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + ":8000"
	}
	return out
}

// Even returns a plan for scope llm in which all addresses are candidates of equal cost.
func Even(addrs []string) *lb.Plan {
	p := &lb.Plan{Scope: "llm"}
	for _, a := range addrs {
		p.Candidates = append(p.Candidates, lb.Candidate{Addr: a, Slope: 1, Weight: 1})
	}
	return p
}

// testLastResort: candidates of another tier, which have a very high base cost, are chosen only when all others are
// full.
func testLastResort(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(4)
	const highCost = 1 << 32
	p := Even(addrs)
	for i := range p.Candidates {
		p.Candidates[i].Cap = 2
		if i >= 2 {
			p.Candidates[i].Base = highCost
		}
	}
	for id := range lb.LeaseID(4) {
		w.must(s, id, p)
	}
	w.want(addrs, 2, 2, 0, 0)
	for id := range lb.LeaseID(2) {
		w.must(s, 10+id, p)
	}
	w.want(addrs, 2, 2, 1, 1) // the load still counts there
}

// testTokenCap: an endpoint takes a request of any size while it has less than its cap in tokens.
func testTokenCap(t *testing.T, w *world) {
	s, addrs := w.NewOwner(), Addrs(1)
	p := Even(addrs)
	p.Unit, p.Tokens = lb.Tokens, 99
	p.Candidates[0].Cap, p.Candidates[0].TokenCap = 3, 100
	full := func(why string) {
		t.Helper()
		if _, _, err := w.reserve(s, 9, p); !errors.Is(err, lb.ErrFull) {
			t.Fatalf("%s: %v", why, err)
		}
	}
	w.must(s, 1, p)
	p.Tokens = 5000
	w.must(s, 2, p)
	full("5099 of 100 tokens")
	s.Amend(w.now, 2, "", 1)
	full("100 of 100 tokens")
	s.Release(w.now, 1)
	p.Tokens = 0
	w.must(s, 3, p)
	w.must(s, 4, p)
	full("3 of 3 requests")
	w.want(addrs, 3)
}
