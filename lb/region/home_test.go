package region

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/prompt"
)

func TestStateOf(t *testing.T) {
	for _, c := range []struct {
		about string
		lb.Candidate
		load lb.Load
		open int
	}{
		{"full", lb.Candidate{Cap: 2}, lb.Load{Requests: 2}, 0},
		{"some free", lb.Candidate{Cap: 8}, lb.Load{Requests: 3}, 5},
		{"no cap", lb.Candidate{}, lb.Load{Requests: 9}, 1},
		{"free tokens, by what others have", lb.Candidate{TokenCap: 1000}, lb.Load{Requests: 1, Tokens: 100}, 9},
		{"few free tokens", lb.Candidate{TokenCap: 1000}, lb.Load{Requests: 1, Tokens: 999}, 1},
		{"idle, of unknown size", lb.Candidate{TokenCap: 1000}, lb.Load{}, 1},
		{"idle, with both caps", lb.Candidate{Cap: 3, TokenCap: 1000}, lb.Load{}, 3},
		{"both caps, that in requests", lb.Candidate{Cap: 3, TokenCap: 1000}, lb.Load{Requests: 1, Tokens: 100}, 2},
		{"both caps, that in tokens", lb.Candidate{Cap: 99, TokenCap: 1000}, lb.Load{Requests: 1, Tokens: 500}, 1},
		{"absurd", lb.Candidate{Cap: 1 << 40}, lb.Load{}, MaxOpen},
	} {
		c.Addr, c.Weight = "a", 1
		p := &lb.Plan{List: lb.NewList([]lb.Candidate{c.Candidate, {Addr: "b", Weight: 1, Cap: 1}})}
		got := StateOf(p, []lb.Load{c.load, {Requests: 1}}, lb.QueueStats{Waiting: 3, Interval: time.Second})
		if c.TokenCap > 0 { // what is at the other one counts for the mean
			got = StateOf(&lb.Plan{List: lb.NewList([]lb.Candidate{c.Candidate})}, []lb.Load{c.load},
				lb.QueueStats{Waiting: 3, Interval: time.Second})
		}
		if want := (State{Open: c.open, Queued: 3, Wait: 3 * time.Second}); got != want {
			t.Errorf("%s: %+v, want %+v", c.about, got, want)
		}
	}
	for askers, want := range map[int]int{0: 8, 1: 8, 3: 3, 8: 1, 100: 1} {
		if got := (State{Open: 8}).SharedBy(askers).Open; got != want {
			t.Errorf("%d places, shared by %d: %d, want %d", 8, askers, got, want)
		}
	}
	if got := (State{}).SharedBy(3).Open; got != 0 {
		t.Errorf("of no places %d are told", got)
	}
}

func TestStaying(t *testing.T) {
	longest := func() int { return 2 }
	p := &lb.Plan{Wait: lb.Wait{Patience: time.Second}, Prefix: lb.Prefix{
		Bytes: 100, Blocks: []prompt.Block{{End: 24}, {End: 25}}, Takes: time.Minute,
	}}
	var s Staying
	s.Note(time.Hour, NoPeer)
	if of := s.Of(2*time.Hour, p, time.Second-1, true, longest); of.Home != 2 || of.Stayed != 0 ||
		of.Saves(2) != 15*time.Second {
		t.Errorf("while no peer had room: %+v", of)
	}
	s.Note(2*time.Hour, Stays)
	s.Note(3*time.Hour, Stays)
	if of := s.Of(3*time.Hour, p, 0, true, longest); of.Stayed != time.Hour {
		t.Errorf("it has stayed for %s", of.Stayed)
	}
	if of := s.Of(0, p, time.Second, true, longest); of.Home != -1 {
		t.Errorf("%d blocks count when its patience is over", of.Home)
	}
	if of := s.Of(0, p, 0, false, longest); of.Home != -1 {
		t.Errorf("%d blocks count for a request that does not wait", of.Home)
	}
	p.Prefix.Takes = 0
	if of := s.Of(0, p, 0, true, longest); of.Home != 2 || of.Saves != nil || of.saved(2) != 0 {
		t.Errorf("while no speed is known: %+v", of)
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
