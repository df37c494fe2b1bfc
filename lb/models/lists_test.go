package models

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"pgregory.net/rapid"
)

// listsOf returns the lists of endpoints e0, e1 and so on as they were read at some time; nil is no list.
func listsOf(at time.Duration, names ...[]string) (l Lists) {
	var addrs []string
	for i, list := range names {
		addr := fmt.Sprint("e", i)
		l.Take(at, addr, list, nil, false)
		addrs = append(addrs, addr)
	}
	l.Ended(at, addrs)
	return l
}

// wantListing fails the test unless requests for the model go to those of four endpoints.
func wantListing(t *testing.T, what string, f *Facts, now time.Duration, model string, want ...int) {
	t.Helper()
	r := lb.Request{ModelID: Name(model) ^ 1, ModelName: Name(model), Length: 100}
	left := f.Filter(now, &r, lb.NewList(factCandidates(4))).Candidates
	got := []int{}
	for _, c := range left {
		got = append(got, int(c.Addr[1]-'0'))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: requests for %s go to %v, want %v", what, model, got, want)
	}
}

func TestRequestsFollowLists(t *testing.T) {
	base, both := []string{"base"}, []string{"base", "sql"}
	for _, c := range []struct {
		name  string
		lists [][]string
		want  []int // for sql
		reads bool
	}{
		{"one has it", [][]string{base, base, base, both}, []int{3}, true},
		{"two have it", [][]string{base, both, base, both}, []int{1, 3}, true},
		{"all have it", [][]string{both, both, both, both}, []int{0, 1, 2, 3}, false},
		{"none has it", [][]string{base, base, base, base}, []int{0, 1, 2, 3}, false},
		{"one is not known", [][]string{base, nil, base, both}, []int{1, 3}, true},
		{"one is known", [][]string{nil, nil, nil, both}, []int{0, 1, 2, 3}, false},
		{"none is known", [][]string{nil, nil, nil, nil}, []int{0, 1, 2, 3}, false},
		{"none was asked", nil, []int{0, 1, 2, 3}, false},
		{"others differ", [][]string{base, {"base", "x"}, base, base}, []int{0, 1, 2, 3}, true},
		{"it alone", [][]string{base, base, base, {"sql"}}, []int{3}, true},
	} {
		f, now := NewFacts(), time.Hour
		f.SetLists(listsOf(now, c.lists...))
		wantListing(t, c.name, f, now, "sql", c.want...)
		wantListing(t, c.name, f, now, "made up", 0, 1, 2, 3)
		if f.Active(now) != c.reads {
			t.Errorf("%s: requests are read for their models: %v", c.name, !c.reads)
		}
	}
}

// Where those that list a model have left, or are ejected, the others are asked.
func TestListsOfAbsentEndpoints(t *testing.T) {
	f, now := NewFacts(), time.Hour
	f.SetLists(listsOf(now, []string{"a"}, []string{"a"}, []string{"a"}, []string{"a"}, []string{"a", "sql"}))
	wantListing(t, "the only one is no candidate", f, now, "sql", 0, 1, 2, 3)
	f.SetLists(listsOf(now, nil, []string{"a"}, nil, nil, []string{"a", "sql"}))
	wantListing(t, "and some are not known", f, now, "sql", 0, 1, 2, 3)
	f.SetLists(listsOf(now, []string{"sql"}, []string{"a"}, nil, nil, []string{"a", "sql"}))
	wantListing(t, "then one of those has it", f, now, "sql", 0, 2, 3)
}

// What requests have shown since a list is as it is counts for more, until the list changes.
func TestAnswersCountForMoreThanLists(t *testing.T) {
	const id = 1
	base, both := []string{"base"}, []string{"base", "sql"}
	sql := Name("sql") ^ id
	f, now := NewFacts(), time.Hour
	lists := listsOf(now, both, base, base, both)
	f.SetLists(lists)
	f.Served(now-time.Second, sql, "e1", 1)
	wantListing(t, "served before", f, now, "sql", 0, 3)
	f.Served(now+time.Second, sql, "e1", 1)
	wantListing(t, "one serves what it does not list", f, now+time.Second, "sql", 0, 1, 3)
	f.Absent(now+2*time.Second, sql, "e0")
	wantListing(t, "one has not what it lists", f, now+2*time.Second, "sql", 1, 3)
	later := now + 2*time.Second + firstPatience
	wantListing(t, "it is asked again", f, later, "sql", 0, 1, 3)
	lists = listsOf(later, base, base, both, base) // at another time
	f.SetLists(lists)
	wantListing(t, "other lists", f, later, "sql", 2)
	f.Absent(later, sql, "e2")
	wantListing(t, "nobody has it", f, later, "sql", 0, 1, 3)
}

// A busy engine that answers late keeps its list for two readings; one that has none loses it at once.
func TestMissedLists(t *testing.T) {
	now := time.Hour
	l := listsOf(now, []string{"a"}, []string{"b"})
	addrs := []string{"e0", "e1"}
	known := func() (n int) {
		for _, e := range l.By {
			if e.Models != nil {
				n++
			}
		}
		return n
	}
	for i := 1; i <= maxMissed; i++ {
		l.Take(now, "e0", nil, nil, true)
		l.Ended(now, addrs)
		if want := 2 - i/maxMissed; known() != want {
			t.Errorf("after %d late answers %d lists are known, want %d", i, known(), want)
		}
	}
	l.Take(now, "e1", nil, nil, false)
	if known() != 0 || !l.Knows("e0") || !l.Knows("e1") {
		t.Errorf("%d lists are known: %+v", known(), l)
	}
	l.Take(now+1, "e0", []string{"a"}, nil, false)
	l.Take(now+2, "e0", []string{"a", "a"}, nil, false)
	if e := l.of(lb.EndpointHash("e0")); e.Since != now+1 || len(e.Models) != 1 || e.Missed != 0 {
		t.Errorf("%+v", e)
	}
	for range maxMissed + 1 {
		l.Ended(now, []string{"e1"})
	}
	if l.Knows("e0") || !l.Knows("e1") {
		t.Errorf("after it has left: %+v", l)
	}
}

// What is shared is bounded: of too many models, and too many endpoints, some are not known.
func TestManyLists(t *testing.T) {
	var l Lists
	for i := range MaxListEndpoints + 10 {
		var names []string
		for k := range 500 {
			names = append(names, fmt.Sprint(i, "/", k))
		}
		l.Take(time.Hour, fmt.Sprint("e", i), names, nil, false)
	}
	raw := l.Append(nil)
	if most := maxListModels*8 + MaxListEndpoints*24 + 16 + maxNameBytes + 2*maxNames + 2; len(raw) > most {
		t.Errorf("%d bytes, want at most %d", len(raw), most)
	}
	read := ReadLists(raw)
	if len(read.By) != MaxListEndpoints {
		t.Errorf("%d endpoints", len(read.By))
	}
	f := NewFacts()
	f.SetLists(read)
	if len(f.listed.partly) > maxListModels {
		t.Errorf("%d models", len(f.listed.partly))
	}
}

// Lists are the same after they were shared, in whatever order they came; and what is damaged does no harm.
func TestSharedLists(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l Lists
		for range rapid.IntRange(0, 20).Draw(rt, "readings") {
			addr := fmt.Sprint("e", rapid.IntRange(0, 5).Draw(rt, "endpoint"))
			names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(rt, "names")
			l.Take(time.Duration(rapid.IntRange(1, 99).Draw(rt, "at")), addr, names, nil, rapid.Bool().Draw(rt, "late"))
		}
		l.BegunAt, l.ReadAt = 5, 7
		raw := l.Append(nil)
		read := ReadLists(raw)
		if fmt.Sprintf("%+v", read) != fmt.Sprintf("%+v", l) {
			rt.Fatalf("%+v, want %+v", read, l)
		}
		if !slices.IsSortedFunc(l.By, func(a, b List) int {
			if a.Endpoint < b.Endpoint {
				return -1
			}
			return 1
		}) {
			rt.Fatalf("not in order: %+v", l)
		}
		f := NewFacts()
		f.SetLists(ReadLists(raw[:rapid.IntRange(0, len(raw)).Draw(rt, "cut")]))
		raw[rapid.IntRange(0, len(raw)-1).Draw(rt, "place")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		f.SetLists(ReadLists(raw))
		r := lb.Request{ModelID: 1, ModelName: Name("a")}
		if left := f.Filter(1, &r, lb.NewList(factCandidates(4))); len(left.Candidates) == 0 {
			rt.Fatal("no candidate is left")
		}
	})
}

// Requests go by lists as by looking at each endpoint.
func TestListingProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "c"}
		lists := make([][]string, 4)
		for i := range lists {
			if rapid.Bool().Draw(rt, "known") {
				lists[i] = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID).Draw(rt, "list")
			}
		}
		f := NewFacts()
		f.SetLists(listsOf(time.Hour, lists...))
		for _, name := range append(names, "d") {
			var want []int
			some := slices.ContainsFunc(lists, func(l []string) bool { return slices.Contains(l, name) })
			for i, l := range lists {
				if !some || l == nil || slices.Contains(l, name) {
					want = append(want, i)
				}
			}
			r := lb.Request{ModelID: 2, ModelName: Name(name)}
			var got []int
			for _, c := range f.Filter(time.Hour, &r, lb.NewList(factCandidates(4))).Candidates {
				got = append(got, int(c.Addr[1]-'0'))
			}
			if !slices.Equal(got, want) {
				rt.Fatalf("%v: requests for %s go to %v, want %v", lists, name, got, want)
			}
		}
	})
}
