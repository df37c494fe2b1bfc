package gains

import (
	"math/rand/v2"
	"time"
)

// World is one of those in which requests are placed.
type World uint8

// The worlds.
const (
	Real   World = iota
	Shadow       // Envoy's least_request places the same requests
	worlds
)

// Place is an endpoint.
type Place struct {
	Addr  string
	Slots int // requests that it runs at once, 0 if that is not known
}

// Gained is what the worlds show.
type Gained struct {
	Same, Elsewhere uint64         // requests by whether least_request would have sent them where they were sent
	Idle            [worlds]uint64 // milliseconds of endpoints that were idle while requests waited
	Vacant          [worlds]uint64 // and of slots that were free
}

const (
	// maxOpen bounds the requests of a cluster that are followed at once.
	maxOpen = 1 << 14
	// maxPlaces bounds the endpoints.
	maxPlaces = 1 << 9
	// shadowLag is by how much the shadow is behind.
	shadowLag = 10 * time.Second
)

// Worlds follows the requests of a cluster in two worlds: the real one, and one in which Envoy's least_request has
// placed the same requests from the beginning on, over its own counts. A request comes when it really came, and takes a
// slot for as long as it really did. Where all slots of an endpoint are taken requests wait there, first come, first
// served; in the real world they may also wait in the gateway.
//
// What is counted of a world is, over time, how many endpoints have no request, or how many requests wait, whichever
// are fewer: what waits there could run here. And the same with slots that are free in place of endpoints.
//
// How long a request takes is known when it really ends. Where it waits longer than in the shadow, that is after its
// end there. So the shadow is behind.
//
// Events come in the order of their times.
type Worlds struct {
	same, elsewhere uint64
	idle, vacant    [worlds]time.Duration

	rng    *rand.Rand
	sides  [worlds]side
	places []place
	byAddr map[string]int32
	listed []int32 // of the places, that are there
	known  bool    // all of these say how many slots they have

	arranged uint64 // how often they were set

	coming []*Flight // requests that have not come to the shadow yet
	ends   ends      // of the shadow
	unused []*Flight
	open   int  // requests that are not over in both worlds
	held   int  // requests that wait in the gateway
	lost   bool // there was too much of something
}

// side is how one of the worlds is now.
type side struct {
	at      time.Duration
	idle    int // endpoints without requests
	vacant  int // slots
	waiting int // requests at endpoints
}

// Flight is a request that is under way in one of the worlds.
type Flight struct {
	came    time.Duration
	held    bool // in the gateway
	over    bool // in the real world
	missed  bool // it never was in the shadow
	takes   time.Duration
	sent    int32         // where to in the real world, -1 for nowhere
	place   [worlds]int32 // where it is, -1 for nowhere
	began   [worlds]bool  // to run
	beganAt [worlds]time.Duration
	endsAt  time.Duration // in the shadow
}

// NewWorlds returns worlds without requests.
func NewWorlds(seed uint64) *Worlds {
	return &Worlds{rng: rand.New(rand.NewPCG(seed, 1)), byAddr: map[string]int32{}}
}

// Take returns what was gained since the last call. What is left of a millisecond is kept.
func (w *Worlds) Take() Gained {
	g := Gained{Same: w.same, Elsewhere: w.elsewhere}
	w.same, w.elsewhere = 0, 0
	for k := range worlds {
		g.Idle[k], g.Vacant[k] = whole(&w.idle[k]), whole(&w.vacant[k])
	}
	return g
}

// whole takes the whole milliseconds off.
func whole(d *time.Duration) uint64 {
	ms := *d / time.Millisecond
	*d -= ms * time.Millisecond
	return uint64(ms)
}

// Tells reports whether it is known how many requests endpoints run at once.
func (w *Worlds) Tells() bool { return w.known }

// Lost reports that there was more than can be followed: what comes of these worlds means nothing any more.
func (w *Worlds) Lost() bool { return w.lost }

// Come notes that a request has come, and waits in the gateway. It returns nil if there are too many.
func (w *Worlds) Come(at time.Duration) *Flight {
	f := w.arrive(at)
	if f != nil {
		f.held = true
		w.held++
	}
	return f
}

// Send notes that a request was sent to a place. f is what Come has returned, nil if it has not waited. It returns nil
// if there are too many.
func (w *Worlds) Send(at time.Duration, f *Flight, place int32) *Flight {
	if f == nil {
		f = w.arrive(at)
	} else {
		w.Advance(at)
	}
	if f == nil || f.sent >= 0 {
		return f
	}
	w.release(f)
	if f.sent = place; place >= 0 {
		w.put(f, place, Real)
	}
	return f
}

// End notes that a request is over, or has left the gateway without being sent. It must not be used any more.
//
// In the shadow it ends when it has run for as long there, or at once if that is over.
func (w *Worlds) End(at time.Duration, f *Flight) {
	w.Advance(at)
	w.release(f)
	if f.over = true; f.began[Real] {
		f.takes = w.sides[Real].at - f.beganAt[Real]
	}
	w.remove(f, Real)
	if f.missed {
		w.drop(f)
	} else if f.began[Shadow] {
		w.endLater(f)
	}
}

// Advance lets time pass.
func (w *Worlds) Advance(at time.Duration) {
	w.count(Real, at)
	for behind := at - shadowLag; ; {
		ends, comes := len(w.ends) > 0, len(w.coming) > 0
		switch {
		case comes && w.coming[0].came <= behind && !(ends && w.ends[0].endsAt <= w.coming[0].came):
			f := w.coming[0]
			w.coming[0], w.coming = nil, w.coming[1:]
			w.count(Shadow, f.came)
			w.choose(f)
		case ends && w.ends[0].endsAt <= behind:
			f := w.ends.next()
			w.count(Shadow, f.endsAt)
			w.remove(f, Shadow)
			w.drop(f)
		default:
			w.count(Shadow, behind)
			return
		}
	}
}

// arrive returns a new request, nil if there are too many.
func (w *Worlds) arrive(at time.Duration) (f *Flight) {
	if w.Advance(at); w.open >= maxOpen {
		w.lost = true
		return nil
	}
	if n := len(w.unused); n > 0 {
		f, w.unused = w.unused[n-1], w.unused[:n-1]
	} else {
		f = new(Flight)
	}
	*f = Flight{came: w.sides[Real].at, sent: -1, place: [worlds]int32{-1, -1}}
	w.coming = append(w.coming, f)
	w.open++
	return f
}

// release notes that a request does not wait in the gateway any more.
func (w *Worlds) release(f *Flight) {
	if f.held {
		f.held = false
		w.held--
	}
}

// endLater has a request end in the shadow that is over in the real world.
func (w *Worlds) endLater(f *Flight) {
	w.ends.add(f, max(w.sides[Shadow].at, f.beganAt[Shadow]+f.takes))
}

// choose has a request come to the shadow: to the better of two endpoints at random, as Envoy does. They may be the
// same, and of two that are equal it is the first one. A request that never ran says not how long it takes.
func (w *Worlds) choose(f *Flight) {
	n := uint64(len(w.listed))
	if n == 0 || f.over && !f.began[Real] {
		if f.missed = true; f.over {
			w.drop(f)
		}
		return
	}
	a, b := w.listed[w.rng.Uint64N(n)], w.listed[w.rng.Uint64N(n)]
	if w.places[b].in[Shadow].load() < w.places[a].in[Shadow].load() {
		a = b
	}
	if f.sent == a {
		w.same++
	} else if f.sent >= 0 {
		w.elsewhere++
	}
	w.put(f, a, Shadow)
}

// drop forgets a request.
func (w *Worlds) drop(f *Flight) {
	w.open--
	w.unused = append(w.unused, f)
}

// count counts what has happened in a world since the last call.
func (w *Worlds) count(k World, at time.Duration) {
	s := &w.sides[k]
	d := at - s.at
	if d <= 0 {
		return
	}
	if s.at = at; !w.known {
		return
	}
	waiting := s.waiting
	if k == Real {
		waiting += w.held
	}
	w.idle[k] += d * time.Duration(min(s.idle, waiting))
	w.vacant[k] += d * time.Duration(min(s.vacant, waiting))
}
