package models

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// Endpoints lack a model that they have refused, until they serve it, while another one serves it; also between the
// times at which they are asked again.
func TestLackingByAnswers(t *testing.T) {
	f, now := NewFacts(), time.Hour
	var all []uint64
	for _, c := range factCandidates(4) {
		all = append(all, lb.EndpointHash(c.Addr))
	}
	want := func(what string, now time.Duration, endpoints []uint64, n int) {
		t.Helper()
		if got := f.Lacking(now, 1, 11, endpoints); got != n {
			t.Errorf("%s: %d lack it, want %d", what, got, n)
		}
	}
	want("nothing is known", now, all, 0)
	f.Absent(now, 1, "e0")
	f.Absent(now, 1, "e1")
	want("nobody has served it", now, all, 0)
	f.Served(now, 1, "e2", 0)
	want("one has", now, all, 2)
	want("while they may be asked again", now+firstPatience+time.Second, all, 2)
	want("one of two has left", now, all[1:], 1)
	want("who has it has left", now, all[:2], 0)
	f.Served(now+firstPatience, 1, "e0", 0)
	want("one has it now", now+firstPatience, all, 1)
	if n := f.Lacking(now, 2, 12, all); n != 0 {
		t.Errorf("%d lack another model", n)
	}
	f.TooLong(now, 1, "e3", 100)
	want("a prompt was too long", now, all, 1)
	want("long ago", now+firstPatience+factsActive, all, 0)
}

// What endpoints list counts, but for those that have shown the contrary.
func TestLackingByLists(t *testing.T) {
	f, now := NewFacts(), time.Hour
	var lists Lists
	var all []uint64
	for i, c := range factCandidates(4) {
		all = append(all, lb.EndpointHash(c.Addr))
		names := []string{"base"}
		if i == 3 {
			names = append(names, "sql")
		}
		if i > 0 { // the list of e0 is not known
			lists.Take(now, c.Addr, names, nil, false)
		}
	}
	f.SetLists(lists)
	want := func(what, model string, n int) {
		t.Helper()
		if got := f.Lacking(now, 7, Name(model), all); got != n {
			t.Errorf("%s: %d lack it, want %d", what, got, n)
		}
	}
	want("all list it", "base", 0)
	want("nobody lists it", "other", 0)
	want("one lists it", "sql", 2)
	now += time.Second
	f.Served(now, 7, "e1", 0)
	want("another one serves it", "sql", 1)
	f.Absent(now, 7, "e0")
	want("and one refuses it", "sql", 2)
}
