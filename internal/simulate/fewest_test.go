package simulate

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// TestFewest compares what is found with all numbers of engines: in regions that help each other with all equal parts,
// in others with each number alone.
func TestFewest(t *testing.T) {
	l, s := twoRegions(60 * time.Millisecond)
	for i := range l.Pools {
		l.Pools[i].Engines = Alike(6, Engine{Config: enginesim.Config{NumBlocks: 4096}})
	}
	local := parsed(t, `{"lb_policy":"prefix_cache","lb_config":{"max_inflight":8,"queue":{"max_wait":"30s"}}}`)
	helping, _ := l.Forwarding(local)
	well := func(r *Result) bool { return r.Served == r.Requests && r.TTFT.P90 < 0.5 }
	run := func(l *Layout, c Contender) *Result {
		t.Helper()
		r, err := l.Run(s.New(1), c, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	find := func(c Contender, well func(*Result) bool) (*Result, bool) {
		t.Helper()
		r, found, err := l.Fewest(&c, func(l *Layout) (*Result, error) { return run(l, c), nil }, well)
		if err != nil {
			t.Fatal(err)
		}
		return r, found
	}
	var want [2]int
	for i := range want {
		for n := 6; n > 0 && well(run(l.first([]int{n, n}), local).Regions[i].Result); n-- {
			want[i] = n
		}
	}
	got, found := find(local, well)
	eu, us := got.Regions[0].Endpoints, got.Regions[1].Endpoints
	if !found || eu != want[0] || us != want[1] || eu == us {
		t.Errorf("%d and %d engines, %v, want %v", eu, us, found, want)
	}
	together := 0
	for n := 6; n > 0; n-- {
		r := run(l.first([]int{n, n}), helping)
		if !well(r.Regions[0].Result) || !well(r.Regions[1].Result) {
			break
		}
		together = 2 * n
	}
	got, found = find(helping, well)
	if n := got.Endpoints; !found || n != together && n != together-1 {
		t.Errorf("%d engines that help each other, want %d or one less", n, together)
	}
	if got, found := find(local, func(*Result) bool { return false }); found || got.Endpoints != 12 {
		t.Errorf("%d engines, %v, where none suffice", got.Endpoints, found)
	}
}
