package simulate

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/enginesim"
)

// TestSplit holds that prompts are computed in one pool and answered in the other, that what an engine has not cached
// pays for the way, and that answers are not held up by prompts any more.
func TestSplit(t *testing.T) {
	s := small()
	s.Prompts, s.System, s.Turns = 0, 4000, 2
	e := Engine{Config: enginesim.Config{NumBlocks: 8192}}
	split := func(transfer time.Duration) *Result {
		t.Helper()
		l := &Layout{Pools: []Pool{{Engines: Alike(2, e)}, {Engines: Alike(2, e)}}, Split: true, Transfer: transfer}
		c, err := OfPolicy("prefix_cache")
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Run(s.New(1), c, 1, nil)
		if err != nil || r.Served != s.Requests || r.Endpoints != 4 || r.Unplaced > 0 {
			t.Fatalf("%+v, %v", figures(r), err)
		}
		return r
	}
	if mixed, near := play(t, s, Alike(4, e), "prefix_cache", 1), split(0); near.PerToken >= 0.8*mixed.PerToken {
		t.Errorf("split: %+v\nmixed: %+v", figures(near), figures(mixed))
	}
	// Without others all of the first turn has to come, and of the second what was added: 4,100 and 100 tokens.
	s.Users = 1
	if d := split(100*time.Microsecond).TTFT.Mean - split(0).TTFT.Mean; d < 0.205 || d > 0.22 {
		t.Errorf("the way of prompts costs %.3f s", d)
	}
	tiny := &Layout{Pools: []Pool{{Engines: Alike(1, e)}, {Engines: Alike(1, Engine{
		Config: enginesim.Config{NumBlocks: 60, MaxQueued: -1},
	})}}, Split: true}
	for i := range 2 {
		tiny.Pools[0], tiny.Pools[1] = tiny.Pools[1], tiny.Pools[0]
		r, err := tiny.Run(s.New(1), Contender{Native: "random"}, 1, nil)
		if err != nil || r.Refused[tooLong] != s.Requests {
			t.Errorf("no memory in pool %d: refused %v, %v", i, r.Refused, err)
		}
	}
}
