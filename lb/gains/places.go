package gains

import "time"

// place is an endpoint in both worlds.
type place struct {
	Place
	listed   bool
	arranged uint64 // when it was listed last
	in       [worlds]slots
}

// slots are what an endpoint runs, and what waits there.
type slots struct {
	running int
	queue   []*Flight
}

func (s *slots) load() int { return s.running + len(s.queue) }

// Arrange sets which endpoints there are.
func (w *Worlds) Arrange(at time.Duration, list []Place) {
	w.Advance(at)
	w.arranged++
	before := w.listed
	w.listed, w.known = make([]int32, 0, len(list)), len(list) > 0
	for i := range list {
		n := w.PlaceOf(list[i].Addr)
		if n < 0 {
			break
		}
		w.known = w.known && list[i].Slots > 0
		if p := &w.places[n]; p.arranged != w.arranged {
			p.arranged = w.arranged
			w.listed = append(w.listed, n)
			w.list(n, true, list[i].Slots)
		}
	}
	for _, n := range before {
		if w.places[n].arranged != w.arranged {
			w.list(n, false, 0)
		}
	}
}

// list sets whether an endpoint is there, and its slots: of one that has left it is not known what it does.
func (w *Worlds) list(n int32, listed bool, slots int) {
	for k := range worlds {
		w.without(n, k)
	}
	p := &w.places[n]
	p.listed, p.Slots = listed, slots
	for k := range worlds {
		w.begin(n, k)
	}
}

// PlaceOf returns the place of an endpoint, which may be a new one; -1 if there are too many.
func (w *Worlds) PlaceOf(addr string) int32 {
	if n, ok := w.byAddr[addr]; ok {
		return n
	}
	n := int32(len(w.places))
	if n < maxPlaces {
		w.places = append(w.places, place{})
	} else if n = w.deserted(); n < 0 {
		w.lost = true
		return n
	}
	delete(w.byAddr, w.places[n].Addr)
	w.places[n].Place = Place{Addr: addr}
	w.byAddr[addr] = n
	return n
}

// deserted returns an endpoint that has left, and has no requests.
func (w *Worlds) deserted() int32 {
	for i := range w.places {
		if p := &w.places[i]; !p.listed && p.in[Real].load()+p.in[Shadow].load() == 0 {
			return int32(i)
		}
	}
	return -1
}

// put gives an endpoint a request.
func (w *Worlds) put(f *Flight, n int32, k World) {
	w.without(n, k)
	s := &w.places[n].in[k]
	f.place[k] = n
	s.queue = append(s.queue, f)
	w.begin(n, k)
}

// remove takes a request away from its endpoint.
func (w *Worlds) remove(f *Flight, k World) {
	n := f.place[k]
	if n < 0 {
		return
	}
	w.without(n, k)
	s := &w.places[n].in[k]
	f.place[k] = -1
	if f.began[k] {
		s.running--
	} else {
		for i := range s.queue {
			if s.queue[i] == f {
				s.queue = append(s.queue[:i], s.queue[i+1:]...)
				break
			}
		}
	}
	w.begin(n, k)
}

// without takes what an endpoint has off the sums of its world, until begin adds it again.
func (w *Worlds) without(n int32, k World) { w.sum(n, k, -1) }

// begin has requests that wait at an endpoint begin as far as there are slots.
func (w *Worlds) begin(n int32, k World) {
	p := &w.places[n]
	s := &p.in[k]
	begun := 0
	for ; begun < len(s.queue) && (p.Slots == 0 || s.running < p.Slots); begun++ {
		f := s.queue[begun]
		s.running++
		f.began[k], f.beganAt[k] = true, w.sides[k].at
		if k == Shadow && f.over {
			w.endLater(f)
		}
	}
	if begun > 0 {
		s.queue = s.queue[:copy(s.queue, s.queue[begun:])]
	}
	w.sum(n, k, 1)
}

func (w *Worlds) sum(n int32, k World, sign int) {
	p, side := &w.places[n], &w.sides[k]
	s := &p.in[k]
	side.waiting += sign * len(s.queue)
	if !p.listed {
		return
	}
	side.vacant += sign * max(0, p.Slots-s.running)
	if s.load() == 0 {
		side.idle += sign
	}
}

// ends are requests by when they end in the shadow, a heap.
type ends []*Flight

func (e *ends) add(f *Flight, at time.Duration) {
	f.endsAt = at
	*e = append(*e, f)
	h := *e
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up].endsAt <= h[i].endsAt {
			return
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func (e *ends) next() *Flight {
	h := *e
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], nil
	h = h[:last]
	*e = h
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].endsAt < h[least].endsAt {
				least = c
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
