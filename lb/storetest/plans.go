package storetest

import "github.com/warmgate/warmgate/lb"

// Addrs returns n endpoint addresses.
func Addrs(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = "10.0." + string(rune('0'+i/100)) + "." + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + ":8000"
	}
	return out
}

// Even returns a plan over the addresses in which a request costs the same on each.
func Even(addrs []string) *lb.Plan {
	p := &lb.Plan{Scope: "llm"}
	for _, a := range addrs {
		p.Candidates = append(p.Candidates, lb.Candidate{Addr: a, Slope: 1, Weight: 1})
	}
	return p
}
