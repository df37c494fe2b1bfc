package storetest

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// history is a random run of several owners.
type history struct {
	*world
	rng    *rand.Rand
	addrs  []string
	owners []*owner
	next   lb.LeaseID
}

// owner is a store with the leases that it should hold.
type owner struct {
	lb.Store
	held map[lb.LeaseID]held
}

type held struct {
	addr   string
	tokens int64
}

// testRandom runs reservations, amendments, releases (also twice, also before the reservation), crashes and new owners
// in random order. Whenever the leases of crashed owners have been returned, the totals must be the sum of the leases
// of the others; after the drain they must be 0.
func testRandom(t *testing.T, w *world) {
	h := &history{world: w, rng: rand.New(rand.NewPCG(11, 7)), addrs: Addrs(12)}
	for range 4 {
		h.join()
	}
	for step := range 6000 {
		h.step()
		if step%200 == 199 {
			h.audit()
		}
	}
	for _, o := range h.owners {
		for id := range o.held {
			o.Release(h.now, id)
		}
		o.held = map[lb.LeaseID]held{}
	}
	h.audit()
	for i, l := range h.Loads("llm", h.addrs) {
		if l != (lb.Load{}) {
			t.Fatalf("after the drain endpoint %d carries %+v", i, l)
		}
	}
}

func (h *history) join() {
	h.owners = append(h.owners, &owner{Store: h.NewOwner(), held: map[lb.LeaseID]held{}})
}

func (h *history) step() {
	o := h.owners[h.rng.IntN(len(h.owners))]
	switch k := h.rng.IntN(100); {
	case k < 45:
		h.reserve(o)
	case k < 80:
		h.release(o)
	case k < 90:
		h.amend(o)
	case k < 94:
		h.next++
		o.Release(h.now, h.next)
		if _, _, err := h.world.reserve(o, h.next, Even(h.addrs)); !errors.Is(err, lb.ErrReleased) {
			h.t.Fatalf("reservation %d after its release: %v", h.next, err)
		}
	case k < 99:
		h.tick(100 * time.Millisecond)
	default:
		if h.rng.IntN(4) == 0 { // a crash: it makes no further call
			for i := range h.owners {
				if h.owners[i] == o {
					h.owners = append(h.owners[:i], h.owners[i+1:]...)
					break
				}
			}
			h.join()
		}
	}
}

// reserve plans with a random range of the endpoints as candidates, as with different views and health.
func (h *history) reserve(o *owner) {
	from := h.rng.IntN(6)
	p := Even(h.addrs[from : from+2+h.rng.IntN(5)])
	p.Unit, p.Tokens, p.Random = lb.Unit(h.rng.IntN(2)), int64(h.rng.IntN(3000)), h.rng.Uint64()
	h.next++
	addr := h.must(o, h.next, p)
	o.held[h.next] = held{addr, p.Tokens}
}

func (h *history) release(o *owner) {
	for id := range o.held {
		o.Release(h.now, id)
		if h.rng.IntN(3) == 0 {
			o.Release(h.now, id)
		}
		delete(o.held, id)
		return
	}
}

func (h *history) amend(o *owner) {
	for id, l := range o.held {
		if h.rng.IntN(2) == 0 {
			l.addr = h.addrs[h.rng.IntN(len(h.addrs))]
		}
		l.tokens = int64(h.rng.IntN(3000))
		o.Amend(h.now, id, l.addr, l.tokens)
		o.held[id] = l
		return
	}
}

func (h *history) tick(d time.Duration) {
	h.world.tick(d)
	for _, o := range h.owners {
		if err := o.Heartbeat(h.now); err != nil {
			h.t.Fatalf("heartbeat: %v", err)
		}
	}
}

// audit waits until the leases of crashed owners are returned, and compares the totals with the leases of the others.
func (h *history) audit() {
	h.t.Helper()
	for range int((TTL + 2*time.Second) / time.Second) {
		h.tick(time.Second)
	}
	want := map[string]lb.Load{}
	for _, o := range h.owners {
		for _, l := range o.held {
			sum := want[l.addr]
			want[l.addr] = lb.Load{Requests: sum.Requests + 1, Tokens: sum.Tokens + l.tokens}
		}
	}
	for i, got := range h.Loads("llm", h.addrs) {
		if got != want[h.addrs[i]] {
			h.t.Fatalf("endpoint %d carries %+v, the owners hold %+v", i, got, want[h.addrs[i]])
		}
	}
}
