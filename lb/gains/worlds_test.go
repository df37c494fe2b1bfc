package gains

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = time.Second

// places returns so many endpoints that each run so many requests at once.
func places(n, slots int) (list []Place) {
	for i := range n {
		list = append(list, Place{strconv.Itoa(i), slots})
	}
	return list
}

// begun returns worlds with such endpoints.
func begun(n, slots int) *Worlds {
	w := NewWorlds(1)
	w.Arrange(0, places(n, slots))
	return w
}

// settled returns what the worlds show when all is over, and what is left in them.
func settled(t interface{ Errorf(string, ...any) }, w *Worlds, at time.Duration) Gained {
	w.Advance(at + 1000*time.Hour)
	for i := range w.places {
		for k := range worlds {
			if n := w.places[i].in[k].load(); n != 0 {
				t.Errorf("%d requests are left at endpoint %d of world %d", n, i, k)
			}
		}
	}
	for k := range worlds {
		s := &w.sides[k]
		if want := (side{s.at, len(w.listed), s.vacant, 0}); *s != want {
			t.Errorf("world %d is %+v in the end, want %+v", k, *s, want)
		}
	}
	if w.open != 0 || w.held != 0 || len(w.ends)+len(w.coming) != 0 {
		t.Errorf("%d requests are left, %d held, %d to end, %d to come", w.open, w.held, len(w.ends), len(w.coming))
	}
	return w.Take()
}

// One endpoint gets all requests, and another one is idle: they wait for nothing.
func TestWaitingBesideAnIdleEndpoint(t *testing.T) {
	w := begun(2, 1)
	first := w.Send(100*second, nil, 0)
	next := w.Send(101*second, nil, 0)
	last := w.Send(102*second, nil, 0)
	w.End(104*second, first) // three seconds with one more, of these two with two
	w.End(108*second, next)
	w.End(109*second, last)
	got := settled(t, w, 109*second)
	if got.Idle[Real] != 7000 || got.Vacant[Real] != 7000 {
		t.Errorf("%d ms idle, %d ms of free slots, want 7000", got.Idle[Real], got.Vacant[Real])
	}
	if got.Same+got.Elsewhere != 3 {
		t.Errorf("%d and %d requests, want 3", got.Same, got.Elsewhere)
	}
	// there one of them may wait for another, too, but never both: the third finds at most two busy ones
	if got.Idle[Shadow] > 7000 {
		t.Errorf("%d ms idle in the shadow", got.Idle[Shadow])
	}
}

// A request that waits in the gateway waits beside the endpoints that are idle.
func TestWaitingInTheGateway(t *testing.T) {
	w := begun(3, 2)
	f := w.Come(100 * second)
	w.Send(105*second, f, 1)
	w.End(110*second, f)
	refused := w.Come(120 * second)
	w.End(121*second, refused)
	got := settled(t, w, 121*second)
	if got.Idle[Real] != 6000 || got.Vacant[Real] != 6000 || got.Idle[Shadow] != 0 {
		t.Errorf("%+v", got)
	}
	if got.Same+got.Elsewhere != 1 {
		t.Errorf("%d and %d requests, want that which was sent", got.Same, got.Elsewhere)
	}
}

// In the shadow a request takes as long as it really ran, whatever it has waited for.
func TestShadowKeepsTheTimeOfRequests(t *testing.T) {
	w := begun(1, 1)
	var flights []*Flight
	for range 4 { // in a row: both worlds are the same
		flights = append(flights, w.Send(100*second, nil, 0))
	}
	for i, f := range flights {
		w.End(time.Duration(102+2*i)*second, f)
	}
	w.Advance(107*second + shadowLag)
	if n := w.places[0].in[Shadow].load(); n != 1 {
		t.Errorf("%d requests in the shadow after seven seconds, want the last one", n)
	}
	if got := settled(t, w, 110*second); got.Same != 4 || got.Elsewhere != 0 {
		t.Errorf("%+v", got)
	}
}

// Without slots nothing is told of waits, and what least_request would have done all the same.
func TestUnknownSlots(t *testing.T) {
	w := begun(2, 0)
	for i := range 10 {
		w.End(time.Duration(101+i)*second, w.Send(time.Duration(100+i)*second, nil, 0))
	}
	if got := settled(t, w, 120*second); w.Tells() || got.Idle != [2]uint64{} || got.Same+got.Elsewhere != 10 {
		t.Errorf("%+v, tells: %t", got, w.Tells())
	}
}

func TestTooManyRequests(t *testing.T) {
	w := begun(1, 1)
	for range maxOpen {
		if w.Send(second, nil, 0) == nil || w.Lost() {
			t.Fatal("one of as many as there may be is not followed")
		}
	}
	if w.Send(second, nil, 0) != nil || w.Come(second) != nil || !w.Lost() {
		t.Error("one more is followed")
	}
}

func TestTooManyEndpoints(t *testing.T) {
	w := begun(maxPlaces, 1)
	if w.PlaceOf("another") != -1 || !w.Lost() {
		t.Error("one more has a place")
	}
	w = begun(maxPlaces, 1)
	w.Arrange(0, places(maxPlaces-1, 1))
	if n := w.PlaceOf("another"); n != maxPlaces-1 || w.Lost() || w.PlaceOf("another") != n {
		t.Errorf("another one is at %d, want the place of the one that has left", n)
	}
}

// reference is the real world, looked at anew at every moment.
type reference struct {
	slots   []int
	queues  [][]*Flight // those that run come first
	held    map[*Flight]bool
	at      time.Duration
	idle    time.Duration
	vacant  time.Duration
	started bool
}

func (r *reference) advance(at time.Duration) {
	idle, vacant, waiting := 0, 0, len(r.held)
	for i, q := range r.queues {
		if len(q) == 0 {
			idle++
		}
		vacant += max(0, r.slots[i]-len(q))
		waiting += max(0, len(q)-r.slots[i])
	}
	if r.started {
		r.idle += (at - r.at) * time.Duration(min(idle, waiting))
		r.vacant += (at - r.at) * time.Duration(min(vacant, waiting))
	}
	r.at, r.started = at, true
}

// played is worlds and their reference.
type played struct {
	*Worlds
	*reference
	rt   *rapid.T
	now  time.Duration
	open []*Flight
	sent uint64
}

func newPlayed(rt *rapid.T) *played {
	n := rapid.IntRange(1, 5).Draw(rt, "endpoints")
	p := &played{
		Worlds: NewWorlds(rapid.Uint64().Draw(rt, "seed")), rt: rt, now: time.Hour,
		reference: &reference{queues: make([][]*Flight, n), held: map[*Flight]bool{}},
	}
	var list []Place
	for i := range n {
		p.slots = append(p.slots, rapid.IntRange(1, 3).Draw(rt, "slots"))
		list = append(list, Place{strconv.Itoa(i), p.slots[i]})
	}
	p.Arrange(p.now, list)
	p.advance(p.now)
	return p
}

func (p *played) come() {
	f := p.Come(p.now)
	p.open = append(p.open, f)
	p.reference.held[f] = true
}

func (p *played) send(f *Flight) {
	i := rapid.IntRange(0, len(p.queues)-1).Draw(p.rt, "endpoint")
	delete(p.reference.held, f)
	if f = p.Send(p.now, f, int32(i)); !slices.Contains(p.open, f) {
		p.open = append(p.open, f)
	}
	p.queues[i] = append(p.queues[i], f)
	p.sent++
}

func (p *played) end(f *Flight) {
	is := func(g *Flight) bool { return g == f }
	p.End(p.now, f)
	delete(p.reference.held, f)
	for i, q := range p.queues {
		p.queues[i] = slices.DeleteFunc(q, is)
	}
	p.open = slices.DeleteFunc(p.open, is)
}

// TestWorlds plays random events: the real world is as a naive count has it, nothing remains in the end, and each
// request that was sent is picked once at most in the shadow.
func TestWorlds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPlayed(rt)
		for range rapid.IntRange(0, 120).Draw(rt, "events") {
			p.now += time.Duration(rapid.IntRange(0, 4000).Draw(rt, "ms")) * time.Millisecond
			p.advance(p.now)
			switch k := rapid.IntRange(0, 5).Draw(rt, "event"); {
			case k == 0:
				p.come()
			case k < 3:
				p.send(nil)
			case len(p.open) > 0:
				f := p.open[rapid.IntRange(0, len(p.open)-1).Draw(rt, "which")]
				if p.reference.held[f] && k < 5 {
					p.send(f)
				} else {
					p.end(f)
				}
			}
		}
		for len(p.open) > 0 {
			p.now += 100 * time.Millisecond
			p.advance(p.now)
			p.end(p.open[0])
		}
		got, idle, vacant := settled(rt, p.Worlds, p.now), p.reference.idle, p.reference.vacant
		if got.Idle[Real] != uint64(idle.Milliseconds()) || got.Vacant[Real] != uint64(vacant.Milliseconds()) {
			rt.Errorf("%+v, want %v idle and %v of free slots", got, idle, vacant)
		}
		// one that never ran, because it left where it waited, may not be in the shadow
		if got.Same+got.Elsewhere > p.sent {
			rt.Errorf("%d and %d picks of %d requests", got.Same, got.Elsewhere, p.sent)
		}
	})
}
