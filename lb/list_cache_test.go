package lb

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/internal/fieldtest"
)

// Lists of equal candidates have the same digest. Any other value in a candidate, and another order, make another one.
func TestDigestOfAList(t *testing.T) {
	var changed Candidate
	lists := map[uint64][]Candidate{}
	add := func(cs ...Candidate) {
		t.Helper()
		l, again := NewList(cs), List{Candidates: slices.Clone(cs)}
		if l.Digest() != again.Digest() {
			t.Errorf("%+v has two digests", cs)
		}
		if other, ok := lists[l.Digest()]; ok {
			t.Errorf("%+v has the digest of %+v", cs, other)
		}
		lists[l.Digest()] = again.Candidates
	}
	add()
	add(changed)
	v := reflect.ValueOf(&changed).Elem()
	fieldtest.Each(t, v, v.Type().Name(), func(string) {
		add(changed)
		add(changed, Candidate{})
		add(Candidate{}, changed)
	})
	values := [...]float64{0, 1, 2, 1.25}
	for i := range 1 << 14 { // all combinations of some values
		at := func(field int) float64 { return values[i>>(2*field)&3] }
		c := Candidate{Addr: "a", Base: at(0), Slope: at(1), Weight: at(2), Capacity: at(3), OverSlope: at(4)}
		c.Cap, c.TokenCap = int64(4*at(5)), int64(4*at(6))
		add(c)
	}
}

// A list is made from another one and parameters once, and again after others had the room.
func TestDerivedLists(t *testing.T) {
	var d DerivedLists
	made := 0
	get := func(from List, params uint64) {
		t.Helper()
		out := d.Get(time.Hour, from, params, func(cs []Candidate) []Candidate {
			made++
			out := slices.Clone(cs)
			out[0].Cap = int64(params)
			return out
		})
		if c := out.Candidates[0]; len(out.Candidates) != len(from.Candidates) || c.Cap != int64(params) ||
			c.Addr != from.Candidates[0].Addr {
			t.Errorf("%+v from %+v with %d", out, from, params)
		}
	}
	a, b := NewList([]Candidate{{Addr: "a"}}), NewList([]Candidate{{Addr: "b"}})
	for range 3 {
		get(a, 1)
		get(a, 2)
		get(b, 1)
		get(List{Candidates: []Candidate{{Addr: "a"}}}, 1)
	}
	if made != 3 {
		t.Errorf("3 lists were made %d times", made)
	}
	long := NewList(append(make([]Candidate, maxDerivedCandidates-1), Candidate{Addr: "z"}))
	get(long, 1)
	get(a, 1)
	if made != 5 || d.made.Len() != 1 {
		t.Errorf("%d lists are kept, were made %d times", d.made.Len(), made)
	}
}

// numbered is a configuration that is equal to those with the same number.
type numbered struct{ n int }

func (c *numbered) Equal(other *numbered) bool { return *c == *other }

// Equal configurations become one, of the latest ones.
func TestConfigsAreBounded(t *testing.T) {
	var known EqualConfigs[*numbered]
	for i := range 3 * maxConfigs {
		c := &numbered{i}
		if known.One(c) != c || known.One(&numbered{i}) != c || len(known) > maxConfigs {
			t.Fatalf("configuration %d of %d is another one", i, len(known))
		}
	}
}
