package models

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// A model is unlisted if all lists are known to be without it, and nothing has shown the contrary.
func TestUnlisted(t *testing.T) {
	const now = time.Hour
	base, sql := []string{"base"}, []string{"base", "sql"}
	id := Name("sql") ^ 1
	for name, c := range map[string]struct {
		lists [][]string
		learn func(f *Facts, l *Lists)
		want  bool
	}{
		"no list has it":       {lists: [][]string{base, base}, want: true},
		"one has it":           {lists: [][]string{base, sql}},
		"one is not known":     {lists: [][]string{base, nil}},
		"one was not asked":    {lists: [][]string{base}},
		"nothing is known yet": {},
		"one that has left":    {lists: [][]string{base, base, sql}},
		"one answers late": {lists: [][]string{base, base}, learn: func(f *Facts, l *Lists) {
			l.Take(now, "e1", nil, nil, true)
			f.SetLists(*l)
		}},
		"one serves it all the same": {lists: [][]string{base, base}, learn: func(f *Facts, _ *Lists) {
			f.Served(now+1, id, "e1", 10)
		}},
		"one served it before": {lists: [][]string{base, base}, learn: func(f *Facts, _ *Lists) {
			f.Served(now-1, id, "e1", 10)
		}, want: true},
	} {
		f, l := NewFacts(), listsOf(now, c.lists...)
		if f.SetLists(l); c.learn != nil {
			c.learn(f, &l)
		}
		view := &lb.View{Endpoints: []lb.Endpoint{{Addr: "e0"}, {Addr: "e1"}}}
		if got := f.Unlisted(now+2, id, Name("sql"), view); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if f.Unlisted(now+2, id, Name("base"), view) {
			t.Errorf("%s: the base model is in no list", name)
		}
		if f.Unlisted(now+2, 1, Name(""), view) {
			t.Errorf("%s: no model is in no list", name)
		}
		if f.Unlisted(now+2, id, Name("sql"), &lb.View{}) {
			t.Errorf("%s: no endpoint has no list", name)
		}
	}
}

// A list is the server's, also where its ranks are endpoints of their own.
func TestUnlistedAtRanks(t *testing.T) {
	const server, now = "10.0.0.1:8000", time.Hour
	view := &lb.View{Endpoints: []lb.Endpoint{{Addr: lb.RankAddr(server, 0)}, {Addr: lb.RankAddr(server, 1)}}}
	f, l := NewFacts(), Lists{}
	l.Take(now, server, []string{"base"}, nil, false)
	f.SetLists(l)
	if !f.Unlisted(now, 1, Name("sql"), view) || f.Unlisted(now, 2, Name("base"), view) {
		t.Error("the list of a server says nothing of its ranks")
	}
}

// Clients are told the ids that lists have, and none that no list has any more.
func TestListedNames(t *testing.T) {
	var l Lists
	l.Take(1, "e0", []string{"sql", "base"}, []string{"base:sql"}, false)
	l.Take(1, "e1", []string{"base"}, nil, false)
	l.Ended(1, []string{"e0", "e1"})
	if l = ReadLists(l.Append(nil)); !slices.Equal(l.Names, []string{"base", "sql"}) {
		t.Errorf("%q", l.Names)
	}
	l.Take(2, "e0", []string{"base"}, nil, false)
	l.Ended(2, []string{"e0", "e1"})
	if l = ReadLists(l.Append(nil)); !slices.Equal(l.Names, []string{"base"}) {
		t.Errorf("after one is gone: %q", l.Names)
	}
}

// A model has as many endpoints as its share of the requests needs, and one while there are few.
func TestSpread(t *testing.T) {
	const busy, rare, unknown = 1, 2, 3
	f, now := NewFacts(), time.Hour
	if n := f.Spread(busy, 8); n != 1 {
		t.Errorf("%d endpoints before the first request", n)
	}
	f.Placed(now, rare)
	if n := f.Spread(rare, 4); n != 1 {
		t.Errorf("%d endpoints for one request", n)
	}
	play := func(d time.Duration, busyOf10 int) {
		for i := range int(d / (10 * time.Millisecond)) {
			now += 10 * time.Millisecond
			if i%10 < busyOf10 {
				f.Placed(now, busy)
			} else {
				f.Placed(now, rare)
			}
		}
	}
	want := func(busyAt, rareAt int) {
		t.Helper()
		if b, r := f.Spread(busy, 8), f.Spread(rare, 8); b != busyAt || r != rareAt {
			t.Errorf("%d and %d endpoints, want %d and %d", b, r, busyAt, rareAt)
		}
	}
	play(time.Minute, 9)
	want(7, 1)
	play(time.Minute, 5)
	want(4, 4)
	if n := f.Spread(busy, 0); n != 0 {
		t.Errorf("%d of no endpoints", n)
	}
	play(2*time.Minute, 0)
	want(1, 8)
	if n := f.Spread(unknown, 8); n != 1 {
		t.Errorf("%d endpoints for a model that nobody asks for", n)
	}
	now += time.Hour
	f.Placed(now, busy)
	want(2, 1)
}
