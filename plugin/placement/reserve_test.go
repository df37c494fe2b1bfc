package placement

import (
	"slices"
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// Retries go to the tier of the chosen endpoint as long as that has another endpoint.
func TestRetriesStayInTheTier(t *testing.T) {
	p := &lb.Plan{List: lb.NewList([]lb.Candidate{
		{Addr: "a0", Tier: 0},
		{Addr: "b0", Tier: 1},
		{Addr: "a1", Tier: 0},
		{Addr: "b1", Tier: 1},
		{Addr: "b2", Tier: 1},
		{Addr: "c0", Tier: 2},
	})}
	for tie := range uint64(64) {
		p.Random = tie << 33
		got := others(p, 3)
		slices.Sort(got)
		if !slices.Equal(got, []string{"b0", "b2"}) {
			t.Errorf("beside b1: %v", got)
		}
		if got := others(p, 0); len(got) != 2 || got[0] != "a1" || got[1] == "a0" || got[1] == "a1" {
			t.Errorf("beside a0: %v, want a1 and one of another tier", got)
		}
	}
}

// A retry's second and third choice are other endpoints than the first, each once.
func TestOthers(t *testing.T) {
	for n := 1; n <= 5; n++ {
		addrs := make([]lb.Candidate, n)
		for i := range addrs {
			addrs[i].Addr = string(rune('a' + i))
		}
		seen := map[string]int{}
		for chosen := range addrs {
			for tie := range uint64(64) {
				got := others(&lb.Plan{List: lb.NewList(addrs), Random: tie << 33}, chosen)
				if len(got) != min(2, n-1) || slices.Contains(got, addrs[chosen].Addr) || len(got) == 2 &&
					got[0] == got[1] {
					t.Fatalf("%d candidates, %s chosen: %v", n, addrs[chosen].Addr, got)
				}
				for _, a := range got {
					seen[a]++
				}
			}
		}
		for _, c := range addrs {
			if n > 1 && seen[c.Addr]*n < 64*n*min(2, n-1)/2 {
				t.Errorf("%d candidates: %s is named %d times, others %v", n, c.Addr, seen[c.Addr], seen)
			}
		}
	}
}
