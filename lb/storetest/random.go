package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
)

// history is a random history of several owners, and what the store should count.
type history struct {
	*world
	rt     *rapid.T
	addrs  []string
	owners []*owner
	next   lb.LeaseID
}

// owner is the store of one owner, and the leases that it holds.
type owner struct {
	lb.Store
	held map[lb.LeaseID]held
}

type held struct {
	addr   string
	tokens int64
}

// actions are the steps of a history. The more often one is listed, the likelier it is.
var actions = slices.Concat(
	slices.Repeat([]string{"reserve", "release"}, 10), slices.Repeat([]string{"amend"}, 3),
	[]string{"pass time", "pass time", "release before reserving", "audit", "crash", "reserve", "reserve"},
)

// testRandom runs reservations, amendments, releases (also twice, also before the reservation), crashes and new owners
// in random order. Whenever all owners have sent heartbeats for longer than the TTL, the totals must be the sum of the
// leases that the owners hold; after the last release they must be 0. A failing history is reduced to few steps.
func testRandom(t *testing.T, w *world) {
	SetRapid(t, "checks", "60")
	SetRapid(t, "steps", "100")
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{world: w.another(t), rt: rt, addrs: Addrs(12)}
		for range 4 {
			h.join()
		}
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { h.step() }})
		h.audit()
		for _, o := range h.owners {
			for _, id := range o.ids() {
				o.Release(h.now, id)
			}
			clear(o.held)
		}
		h.audit()
		for i, l := range h.Loads("llm", h.addrs) {
			if l != (lb.Load{}) {
				rt.Fatalf("after the last release endpoint %d carries %+v", i, l)
			}
		}
	})
}

func (h *history) join() {
	h.owners = append(h.owners, &owner{Store: h.NewOwner(), held: map[lb.LeaseID]held{}})
}

// ids returns the leases that the owner holds, in order, so that a history can be repeated.
func (o *owner) ids() (ids []lb.LeaseID) {
	for id := range o.held {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// draw returns a random number below n.
func (h *history) draw(label string, n int) int { return rapid.IntRange(0, n-1).Draw(h.rt, label) }

func (h *history) step() {
	i := h.draw("owner", len(h.owners))
	o := h.owners[i]
	switch rapid.SampledFrom(actions).Draw(h.rt, "action") {
	case "reserve":
		h.reserve(o)
	case "release":
		h.release(o)
	case "amend":
		h.amend(o)
	case "release before reserving":
		h.next++
		o.Release(h.now, h.next)
		if _, err := h.reserveOnce(o, Even(h.addrs)); !errors.Is(err, lb.ErrReleased) {
			h.rt.Fatalf("reservation %d after its release: %v", h.next, err)
		}
	case "pass time":
		h.tick(100 * time.Millisecond)
	case "audit":
		h.audit()
	case "crash": // the owner sends nothing any more
		h.owners = slices.Delete(h.owners, i, i+1)
		h.join()
	}
}

// reserveOnce reserves the lease h.next and expects an answer at once.
func (h *history) reserveOnce(o *owner, p *lb.Plan) (addr string, err error) {
	calls := 0
	o.Reserve(h.now, h.next, p, func(g lb.Grant, e error) {
		if calls, err = calls+1, e; e == nil {
			addr = p.Candidates[g.Index].Addr
		}
	})
	if calls != 1 {
		h.rt.Fatalf("done was called %d times", calls)
	}
	return addr, err
}

// reserve plans over a random part of the endpoints, as different views and health would.
func (h *history) reserve(o *owner) {
	from := h.draw("first endpoint", 6)
	p := Even(h.addrs[from : from+2+h.draw("more endpoints", 5)])
	p.Unit, p.Tokens = lb.Unit(h.draw("unit", 2)), int64(h.draw("tokens", 3000))
	p.Random = rapid.Uint64().Draw(h.rt, "tie")
	h.next++
	addr, err := h.reserveOnce(o, p)
	if err != nil {
		h.rt.Fatalf("reserve %d: %v", h.next, err)
	}
	o.held[h.next] = held{addr, p.Tokens}
}

// release releases a lease, sometimes twice.
func (h *history) release(o *owner) {
	ids := o.ids()
	if len(ids) == 0 {
		return
	}
	id := ids[h.draw("lease", len(ids))]
	for range 1 + h.draw("again", 3)/2 {
		o.Release(h.now, id)
	}
	delete(o.held, id)
}

// amend changes the tokens of a lease, and sometimes its endpoint.
func (h *history) amend(o *owner) {
	ids := o.ids()
	if len(ids) == 0 {
		return
	}
	id := ids[h.draw("lease", len(ids))]
	l := o.held[id]
	if h.draw("other endpoint", 2) == 1 {
		l.addr = h.addrs[h.draw("endpoint", len(h.addrs))]
	}
	l.tokens = int64(h.draw("tokens", 3000))
	o.Amend(h.now, id, l.addr, l.tokens)
	o.held[id] = l
}

// tick lets time pass, with a heartbeat of every owner.
func (h *history) tick(d time.Duration) {
	h.world.tick(d)
	for _, o := range h.owners {
		if err := o.Heartbeat(h.now); err != nil {
			h.rt.Fatalf("heartbeat: %v", err)
		}
	}
}

// audit waits until the leases of crashed owners are returned, and compares the totals with what the others hold. One
// of them uses the scope first, since owners may return leases only in scopes that they use.
func (h *history) audit() {
	h.next++
	if _, err := h.reserveOnce(h.owners[0], Even(h.addrs)); err != nil {
		h.rt.Fatalf("reserve %d: %v", h.next, err)
	}
	h.owners[0].Release(h.now, h.next)
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
			h.rt.Fatalf("endpoint %d carries %+v, the owners hold %+v", i, got, want[h.addrs[i]])
		}
	}
}
