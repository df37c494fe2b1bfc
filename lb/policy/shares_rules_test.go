package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// sharesAt returns shares with counted requests, by endpoint and by how long before now they were.
func sharesAt(now time.Duration, counts map[int]map[time.Duration]int) *RequestShares {
	s := &RequestShares{limited: true}
	for endpoint, byAge := range counts {
		for age, n := range byAge {
			for range n {
				s.Count(now-age, endpointAddr(endpoint))
			}
		}
	}
	return s
}

// A candidate stays within the limit if it does with this request. A limit of 0, or from 1 on, is none; if all
// candidates are above the limit, it has no effect.
func TestWithinTheLimit(t *testing.T) {
	cs := []lb.Candidate{{Addr: endpointAddr(0)}, {Addr: endpointAddr(1)}, {Addr: endpointAddr(2)}}
	for _, c := range []struct {
		name   string
		limit  float64
		counts []int
		want   []int
	}{
		{"no limit", 0, []int{9, 0, 0}, []int{0, 1, 2}},
		{"a limit of 1", 1, []int{9, 0, 0}, []int{0, 1, 2}},
		{"above 1", 1.5, []int{9, 0, 0}, []int{0, 1, 2}},
		{"below 0", -1, []int{9, 0, 0}, []int{0, 1, 2}},
		{"nothing counted", 0.5, []int{0, 0, 0}, []int{0, 1, 2}},
		{"one above it", 0.5, []int{5, 2, 2}, []int{1, 2}},
		{"just within it", 0.5, []int{4, 3, 2}, []int{0, 1, 2}},
		{"all above it", 0.2, []int{3, 3, 3}, []int{0, 1, 2}},
		{"two above it", 0.3, []int{4, 4, 1}, []int{2}},
	} {
		s := NewRequestShares()
		s.limited = true
		for i, n := range c.counts {
			for range n {
				s.Count(time.Hour, endpointAddr(i))
			}
		}
		s.limited = false
		var got []int
		for _, cand := range s.within(time.Hour, c.limit, cs) {
			got = append(got, slices.IndexFunc(cs, func(o lb.Candidate) bool { return o.Addr == cand.Addr }))
		}
		if !slices.Equal(got, c.want) || s.Limited() != (c.limit > 0 && c.limit < 1) {
			t.Errorf("%s: %v, limited %v, want %v", c.name, got, s.Limited(), c.want)
		}
	}
	if got := NewRequestShares().within(0, 0.5, nil); len(got) != 0 {
		t.Error("candidates out of none")
	}
}

// Requests count for ten slots of a second.
func TestWindowOfShares(t *testing.T) {
	const now = time.Hour
	for age, want := range map[time.Duration]uint32{
		0: 3, 9 * time.Second: 3, 9*time.Second + 999*time.Millisecond: 0, 10 * time.Second: 0, time.Minute: 0,
	} {
		s := sharesAt(now, map[int]map[time.Duration]int{0: {age: 3}})
		by, total := s.sums(now)
		if total != want || by[lb.EndpointHash(endpointAddr(0))] != want {
			t.Errorf("%v ago: %d of %d requests count, want %d", age, by[lb.EndpointHash(endpointAddr(0))], total, want)
		}
		if got := len(s.Export(now, nil)); got != int(min(want, 1))*shareEntry {
			t.Errorf("%v ago: %d bytes are exported", age, got)
		}
	}
	s := sharesAt(now, map[int]map[time.Duration]int{0: {0: 1, time.Second: 2, 9 * time.Second: 3}, 1: {0: 4}})
	if by, total := s.sums(now); total != 10 || by[lb.EndpointHash(endpointAddr(0))] != 6 {
		t.Errorf("%v of %d", by, total)
	}
	if all := s.Export(now, nil); len(all) != 4*shareEntry || !s.Pending() {
		t.Errorf("%d bytes are exported", len(all))
	} else if s.ConfirmExport(all); s.Pending() {
		t.Error("something is to be exported again")
	} else if by, total := s.sums(now); total != 10 || by[lb.EndpointHash(endpointAddr(1))] != 4 {
		t.Errorf("after the export: %v of %d", by, total)
	}
}

// A slot that is used again replaces the earlier one, and ignores requests of that.
func TestSlotsOfShares(t *testing.T) {
	var c shareCount
	c.add(7, 1, 2)
	c.add(7, 1, 3)
	c.add(17, 1, 4)
	if c.add(7, 1, 5); c.slot != 17 || c.picks[1] != 4 {
		t.Errorf("slot %d has %v", c.slot, c.picks)
	}
	if c.add(^uint32(0), 1, 5); c.slot != 17 { // just before slot 0, and before 17
		t.Errorf("slot %d", c.slot)
	}
	var wrapped shareCount
	wrapped.add(^uint32(0), 1, 5)
	if wrapped.add(0, 1, 6); wrapped.slot != 0 || wrapped.picks[1] != 6 {
		t.Errorf("slot %d has %v", wrapped.slot, wrapped.picks)
	}
}

// With a cap, the candidates above the limit are behind the others, for when these are full.
func TestAboveTheLimitWithCaps(t *testing.T) {
	s := sharesAt(time.Hour, map[int]map[time.Duration]int{0: {0: 5}, 1: {0: 2}, 2: {0: 2}})
	cs := []lb.Candidate{
		{Addr: endpointAddr(0), Weight: 1}, {Addr: endpointAddr(1), Weight: 1}, {Addr: endpointAddr(2), Weight: 1},
	}
	if got := s.inFront(time.Hour, 0.5, lb.NewList(cs)); len(got.Candidates) != 2 {
		t.Errorf("without caps %v", got)
	}
	for i := range cs {
		cs[i].Cap, cs[i].Slope = 4, 1
	}
	p := lb.Plan{List: s.inFront(time.Hour, 0.5, lb.NewList(cs))}
	for _, c := range []struct {
		inflight [3]int64 // of the endpoints 1, 2 and 0
		want     string
	}{
		{[3]int64{3, 2, 0}, endpointAddr(2)},
		{[3]int64{3, 4, 0}, endpointAddr(1)},
		{[3]int64{4, 4, 3}, endpointAddr(0)},
	} {
		loads := []lb.Load{{Requests: c.inflight[0]}, {Requests: c.inflight[1]}, {Requests: c.inflight[2]}}
		if at := lb.Choose(&p, loads, nil); at == lb.Full || p.Candidates[at].Addr != c.want {
			t.Errorf("%v: chose %d of %v, want %s", c.inflight, at, p.Candidates, c.want)
		}
	}
	if at := lb.Choose(&p, []lb.Load{{Requests: 4}, {Requests: 4}, {Requests: 4}}, nil); at != lb.Full {
		t.Errorf("all full: %d", at)
	}
}
