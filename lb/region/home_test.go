package region

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

func TestStateOf(t *testing.T) {
	p := &lb.Plan{List: lb.NewList([]lb.Candidate{{Addr: "a", Weight: 1, Cap: 2}, {Addr: "b", Weight: 1}})}
	got := StateOf(p, []lb.Load{{Requests: 2}, {Requests: 9}}, lb.QueueStats{Waiting: 3, Interval: time.Second})
	if want := (State{Open: 1, Queued: 3, Wait: 3 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestAtHome(t *testing.T) {
	longest := func() int { return 7 }
	if got := AtHome(time.Second-1, time.Second, longest); got != 7 {
		t.Errorf("%d blocks count while a request has patience, want 7", got)
	}
	if got := AtHome(time.Second, time.Second, longest); got != -1 {
		t.Errorf("%d after that, want -1", got)
	}
}

func TestHasMuchMore(t *testing.T) {
	p := &lb.Prefix{Bytes: 100, Blocks: []prompt.Block{{End: 24}, {End: 25}, {End: 49}, {End: 50}}}
	for _, c := range []struct {
		matched    []int
		here, most int
		want       bool
	}{
		{nil, 0, 0, false},
		{[]int{0, 1}, 0, 1, false},
		{[]int{2, 0}, 0, 2, true},
		{[]int{2, 3}, 2, 3, false},
		{[]int{4, 0}, 2, 4, true},
		{[]int{1, 0}, 4, 1, false},
	} {
		most, has := HasMuchMore(p, c.matched, func() int { return c.here })
		if most != c.most || has != c.want {
			t.Errorf("%v of other regions, %d here: %d, %v", c.matched, c.here, most, has)
		}
	}
}
