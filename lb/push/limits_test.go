package push

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

func pushCandidates() []lb.Candidate {
	return []lb.Candidate{{Addr: "a", Weight: 1}, {Addr: "b", Weight: 1, Cap: 20}, {Addr: "c", Weight: 1, Cap: 5}}
}

// The tighter of the limit and the cap holds.
func TestLimitsAreCaps(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit float64
		ahead int
		want  [3]int64
	}{
		{"first", firstLimit, 0, [3]int64{16, 16, 5}},
		{"at hand", firstLimit, 3, [3]int64{19, 19, 5}},
		{"high", 100.9, 0, [3]int64{100, 20, 5}},
		{"low", 1, 0, [3]int64{1, 1, 1}},
	} {
		l := New(nil)
		cs := pushCandidates()
		for i := range cs {
			p := l.endpoint(time.Hour, cs[i].Addr)
			p.limit = c.limit
			l.publish(time.Hour, p)
		}
		out := l.Apply(time.Hour, lb.NewList(cs), c.ahead).Candidates
		for i := range out {
			if out[i].Cap != c.want[i] {
				t.Errorf("%s: caps %+v", c.name, out)
			}
			if out[i].Cap = cs[i].Cap; out[i] != cs[i] {
				t.Errorf("%s: more has changed: %+v", c.name, out[i])
			}
		}
	}
}

// A list follows the limits, in another list and not in place.
func TestLimitedListsFollowLimits(t *testing.T) {
	l, source, now := New(nil), lb.NewList(pushCandidates()), time.Hour
	caps := func(want int64) []lb.Candidate {
		t.Helper()
		now += maxLimitsAge / 7
		cs := l.Apply(now, source, 0).Candidates
		if cs[0].Cap != want || cs[2].Cap != 5 {
			t.Errorf("%+v, want a first cap of %d", cs, want)
		}
		return cs
	}
	first := caps(16)
	for _, limit := range []float64{16.9, 30, 16} {
		p := l.endpoint(now, "a")
		p.limit = limit
		l.publish(now, p)
		caps(int64(limit))
	}
	if first[0].Cap != 16 || source.Candidates[0].Cap != 0 {
		t.Error("a list has changed in place")
	}
	if got := l.Apply(now, lb.List{}, 0); got.Candidates != nil {
		t.Error("candidates from none")
	}
}

// Endpoints that are in no list any more are forgotten.
func TestLimitsAreForgotten(t *testing.T) {
	l, now := New(nil), time.Hour
	l.Apply(now, lb.NewList(pushCandidates()), 0)
	for range 100 {
		now += unusedEndpointTTL / 50
		l.Apply(now, lb.NewList([]lb.Candidate{{Addr: "d"}}), 0)
	}
	if _, known := l.Limit("d"); len(l.endpoints) != 1 || !known {
		t.Errorf("endpoints %v", l.endpoints)
	}
	for _, size := range []int{1, 300} {
		for i := range 400 {
			cs := make([]lb.Candidate, size)
			cs[0] = lb.Candidate{Addr: fmt.Sprint("e", i)}
			l.Apply(now, lb.NewList(cs), 0)
		}
		if n := l.lists.Len(); n < 50 || n*256 > maxLimitedCandidates {
			t.Errorf("%d lists of %d are kept", n, size)
		}
	}
}
