package main

import "slices"

// rotate moves the beginning of loops to their front. Go's compiler puts the condition of a loop behind its body, and
// enters the loop there.
func (f *flow) rotate(entries map[int]bool) {
	for range f.regions {
		s, front := f.rotated(entries)
		if front == 0 {
			return
		}
		f.move(s, front)
	}
}

// rotated returns a loop into which code leads at one region only, which is not its first one. The shortest loop comes
// first.
func (f *flow) rotated(entries map[int]bool) (loop span, front int) {
	edges := f.edges()
	lasts := map[int]int{}
	for _, e := range edges {
		if e.from >= e.to {
			lasts[e.to] = max(lasts[e.to], e.from)
		}
	}
	for first, last := range lasts {
		s := span{first, last}
		if front != 0 && !s.before(loop) {
			continue
		}
		if at := f.entrance(s, edges, entries); at > first {
			loop, front = s, at
		}
	}
	return loop, front
}

// before reports whether a loop is shorter than another one, or in front of it.
func (s span) before(other span) bool {
	length, others := s.last-s.first, other.last-other.first
	return length < others || length == others && s.first < other.first
}

// entrance returns the only region at which a loop is entered, -1 if there are more.
func (f *flow) entrance(s span, edges []edge, entries map[int]bool) int {
	at := -1
	enter := func(region int) bool {
		if at >= 0 && at != region {
			return false
		}
		at = region
		return true
	}
	if (s.first == 0 || f.regions[s.first-1].next == s.first) && !enter(s.first) {
		return -1
	}
	for number := range entries {
		if region := f.region(number); s.has(region) && !enter(region) {
			return -1
		}
	}
	for _, e := range edges {
		if !s.has(e.from) && s.has(e.to) && !enter(e.to) {
			return -1
		}
	}
	return at
}

// move puts the regions of a loop from front on before the others.
func (f *flow) move(s span, front int) {
	to := make([]int, len(f.regions)+1)
	for k := range to {
		switch {
		case !s.has(k):
			to[k] = k
		case k >= front:
			to[k] = s.first + k - front
		default:
			to[k] = s.last - front + 1 + k
		}
	}
	moved := make([]region, len(f.regions))
	for k, r := range f.regions {
		if r.next != nowhere {
			r.next = to[r.next]
		}
		moved[to[k]] = r
	}
	f.regions = moved
	f.table = slices.Clone(f.table)
	for i, k := range f.table {
		f.table[i] = to[k]
	}
}
