package storetest

import (
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
