package engines

import (
	"testing"

	"github.com/warmgate/warmgate/lb"
)

// How many ranks a server has follows its samples, and what depends on it is told of each change and no more.
func TestRanksFollowSamples(t *testing.T) {
	g := New()
	samples := func(counts map[string]int) map[string]Sample {
		list := map[string]Sample{}
		for server, n := range counts {
			if n == 0 {
				list[server] = Sample{}
			}
			for rank := range n {
				list[lb.RankAddr(server, rank)] = Sample{}
			}
		}
		return list
	}
	const a, b = "10.0.0.1:8000", "10.0.0.2:8000"
	version := g.RanksVersion()
	for i, step := range []struct {
		counts  map[string]int
		changes bool
	}{
		{map[string]int{a: 0, b: 0}, false},
		{map[string]int{a: 4, b: 0}, true},
		{map[string]int{a: 4, b: 0}, false},
		{map[string]int{a: 2, b: 8}, true},
		{map[string]int{a: 2}, true},
		{map[string]int{a: 0}, true},
	} {
		g.Update(0, nil, samples(step.counts))
		for _, server := range []string{a, b} {
			if n := g.Ranks(server); n != step.counts[server] {
				t.Errorf("step %d: %d ranks of %s, want %d", i, n, server, step.counts[server])
			}
		}
		if now := g.RanksVersion(); (now != version) != step.changes {
			t.Errorf("step %d: version %d after %d", i, now, version)
		}
		version = g.RanksVersion()
	}
}
