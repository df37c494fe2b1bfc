package lb

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// listOf returns a new list that equals every other one of the same number and length.
func listOf(number, n int) []Candidate {
	cs := make([]Candidate, n)
	for i := range cs {
		cs[i] = Candidate{Addr: endpointAddr(i), Base: float64(number), Slope: 1, Weight: 1}
	}
	return cs
}

// A pool returns a list equal to the one it gets; the same list at the same address as long as it was made within
// unusedListTTL and the pool has room; and it never holds more than its limits allow.
func TestListPool(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var p listPool
		now := time.Minute
		made := map[int]time.Duration{}
		first := map[int]*Candidate{}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 5).Draw(rt, "action") {
			case 0:
				now += time.Duration(rapid.IntRange(0, 8).Draw(rt, "s")) * time.Second
			case 1:
				p.sweep(now)
			default:
				number := rapid.IntRange(0, 20).Draw(rt, "list")
				cs := listOf(number, 3)
				got := p.intern(now, cs)
				if !slices.Equal(got, cs) {
					rt.Fatalf("%v is %v in the pool", cs, got)
				}
				at, known := made[number]
				if known && now-at <= unusedListTTL && &got[0] != first[number] {
					rt.Fatalf("list %d has another address after %v", number, now-at)
				}
				made[number], first[number] = now, &got[0]
			}
		}
	})
}

// Lists that were made least recently are the first to go when there are too many, or too many candidates in them.
func TestListPoolEvictsTheOldest(t *testing.T) {
	for _, size := range []int{1, 1000, maxPooledCandidates, maxPooledCandidates + 1} {
		var p listPool
		fit := max(1, min(maxPooledLists, maxPooledCandidates/size))
		var latest [][]Candidate
		for number := range fit + 10 {
			latest = append(latest, p.intern(time.Minute, listOf(number, size)))
			if len(latest) > fit {
				latest = latest[1:]
			}
			n := 0
			for i := range p.lists {
				n += len(p.lists[i].candidates)
			}
			if len(p.lists) > maxPooledLists || len(p.lists) > 1 && n > maxPooledCandidates {
				t.Fatalf("%d lists of %d candidates hold %d candidates", len(p.lists), size, n)
			}
			if number > 12 && size >= maxPooledCandidates {
				break
			}
		}
		for i, list := range latest {
			if &p.lists[len(p.lists)-len(latest)+i].candidates[0] != &list[0] {
				t.Fatalf("of lists of %d candidates, not the latest %d are in the pool", size, fit)
			}
		}
	}
}

// A derived list is built once for each source and set of parameters, and again only after too many others.
func TestDerivedLists(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var d derivedLists[int]
		sources := [][]Candidate{listOf(0, 1), listOf(1, 2), listOf(2, 3), nil}
		type made struct{ source, param int }
		cached := map[made]*Candidate{}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			source, param := rapid.IntRange(0, 3).Draw(rt, "source"), rapid.IntRange(0, 40).Draw(rt, "parameter")
			built := false
			before := len(d.lists)
			got := d.get(sources[source], param, func(cs []Candidate) []Candidate {
				built = true
				return append(slices.Clone(cs), Candidate{Base: float64(param)})
			})
			if sources[source] == nil {
				if len(got) > 0 || built {
					rt.Fatalf("a list of %d is derived from none", len(got))
				}
				continue
			}
			if before == maxDerivedLists && built {
				clear(cached)
			}
			known, ok := cached[made{source, param}]
			if ok == built || ok && &got[0] != known {
				rt.Fatalf("source %d, parameter %d: built %v, cached %v", source, param, built, ok)
			}
			if last := got[len(got)-1]; last.Base != float64(param) || len(got) != len(sources[source])+1 {
				rt.Fatalf("source %d, parameter %d: %v", source, param, got)
			}
			cached[made{source, param}] = &got[0]
		}
	})
}
