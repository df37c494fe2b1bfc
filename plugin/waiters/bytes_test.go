package waiters

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/plugin/clusters"
	"github.com/warmgate/warmgate/plugin/config"
	"github.com/warmgate/warmgate/plugin/host"
	"github.com/warmgate/warmgate/plugin/process"
	"github.com/warmgate/warmgate/plugin/process/processtest"
	"github.com/warmgate/warmgate/plugin/stores"
)

// most returns how much is held of the one of whom most is, but of the given one.
func (w *Waiters) most(except holder) (most int) {
	for of, n := range w.of {
		if of != except {
			most = max(most, n)
		}
	}
	return most
}

// However large bodies are and whoever sends them, no more is held than may be, a tenant with nothing there is refused
// only what would be the most, and who makes room is of the one that holds most.
func TestRoomForBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 6))
		w := &Waiters{Held: map[*Waiter]int{}, of: map[holder]int{}, Owners: 1}
		c := &config.Config{Queue: config.Queue{MaxBytes: 1000 + rng.IntN(5000)}}
		for i := range 300 {
			s := &Waiter{Config: c, Since: time.Duration(i)}
			s.Turn = rng.Uint64N(5) * rng.Uint64N(2)
			s.Scope = [...]string{"one", "other"}[rng.IntN(2)]
			s.Rank = uint8(rng.IntN(2))
			n := 1 + rng.IntN(c.Queue.MaxBytes/4)
			own := w.of[s.holder]
			most := w.most(s.holder)
			leave, ok := w.roomFor(s, n)
			if !ok && own == 0 && n < most/4 {
				rt.Fatalf("%d bytes of a tenant without any are refused, another one holds %d of %d", n, most, w.Bytes)
			}
			if ok && len(leave) > 0 && own+n >= most {
				rt.Fatalf("room for %d bytes of a tenant with %d, by one with %d", n, own, most)
			}
			for i, other := range leave {
				for o := range w.Held {
					if o.holder == other.holder && leavesBefore(o, other) < 0 &&
						!slices.Contains(leave[:i], o) {
						rt.Fatalf("a request of rank %d that came at %d leaves before one of rank %d at %d",
							other.Rank, other.Since, o.Rank, o.Since)
					}
				}
			}
			for _, other := range leave {
				most := w.most(s.holder)
				if w.of[other.holder] < most || other.holder == s.holder {
					rt.Fatalf("%d bytes left of a tenant that holds %d, another one holds %d", w.Held[other],
						w.of[other.holder], most)
				}
				w.count(other, -w.Held[other])
				delete(w.Held, other)
			}
			if ok {
				w.count(s, n)
			}
			if w.Bytes > c.Queue.MaxBytes {
				rt.Fatalf("%d bytes of %d are held", w.Bytes, c.Queue.MaxBytes)
			}
		}
	})
}

// bytesLab is a VM with requests that are held, by hand.
type bytesLab struct {
	*Waiters
	cfg     *config.Config
	waiting map[lb.LeaseID]bool // in Redis
	left    int                 // of those that are held
	leaves  func()              // is called by the next one that leaves
}

func newBytesLab(t *testing.T, limit int) *bytesLab {
	t.Helper()
	kv := &processtest.KV{Cells: map[string]processtest.Cell{}}
	if err := process.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	e := &host.Env{GW: enteredGateway{kv: kv}}
	c := &config.Config{Queue: config.Queue{MaxBytes: limit}}
	return &bytesLab{Waiters: New(e, stores.New(e), nil), cfg: c, waiting: map[lb.LeaseID]bool{}}
}

// enteredGateway is a gateway whose contexts can be entered.
type enteredGateway struct {
	host.Gateway
	kv lb.KV
}

func (g enteredGateway) KV() lb.KV      { return g.kv }
func (g enteredGateway) Random() uint64 { return 1 }
func (g enteredGateway) Enter(uint32)   {}

// labStore is where they wait.
type labStore struct {
	lb.Store
	lab *bytesLab
}

func (s labStore) Waits(id lb.LeaseID) bool { return s.lab.waiting[id] }

// request returns one that waits, or has not been answered by Redis.
func (b *bytesLab) request(scope string, turn uint64, inRedis bool) *Waiter {
	id := b.stores.NextID()
	w := &Waiter{
		holder: holder{scope, turn}, Config: b.cfg, Since: time.Duration(id), Store: labStore{lab: b}, Redis: inRedis,
		ID: id,
	}
	w.Callee = &heldRequest{Waiter: w, lab: b}
	return w
}

// heldRequest is a request that is held. It is in a callback, which does nothing.
type heldRequest struct {
	*Waiter
	lab *bytesLab
}

func (r *heldRequest) PlanAgain()      {}
func (r *heldRequest) GoElsewhere()    {}
func (r *heldRequest) GrantRecovered() {}

func (r *heldRequest) GiveWay() {
	r.lab.left++
	if f := r.lab.leaves; f != nil {
		r.lab.leaves = nil
		f()
	}
}

// hold holds a new request.
func (b *bytesLab) hold(scope string, turn uint64, n int, inRedis bool) *Waiter {
	s := b.request(scope, turn, inRedis)
	b.count(s, n)
	return s
}

// A rule whose requests have no tenants, or that are not known yet, is another one than those of other clusters.
func TestRoomForBytesOfAnotherCluster(t *testing.T) {
	b := newBytesLab(t, 1000)
	for range 10 {
		b.hold("flooded", 0, 100, false)
	}
	leave, ok := b.roomFor(b.request("idle", 0, false), 100)
	if !ok || len(leave) != 1 {
		t.Errorf("%v, %d leave", ok, len(leave))
	}
	if _, ok := b.roomFor(b.request("flooded", 0, false), 100); ok {
		t.Error("the one that holds all has room for more")
	}
}

// Requests that only wait for an answer of Redis may be granted an endpoint at once: they make no room for others.
func TestBytesOfThoseThatRedisHasNotAnswered(t *testing.T) {
	b := newBytesLab(t, 1000)
	first := b.hold("a", 1, 100, true)
	b.waiting[first.ID] = true
	for range 8 {
		b.hold("a", 1, 100, true)
	}
	s := b.request("a", 2, true)
	if leave, ok := b.roomFor(s, 200); !ok || !slices.Equal(leave, []*Waiter{first}) {
		t.Errorf("%v, %d leave, want only the one that waits in Redis", ok, len(leave))
	}
	if leave, ok := b.roomFor(s, 300); ok {
		t.Errorf("%d leave", len(leave))
	}
}

// A body grows while Redis has not answered. Nobody leaves for it before it is known to wait.
func TestBodyThatGrowsBeforeRedisAnswers(t *testing.T) {
	b := newBytesLab(t, 1000)
	for range 10 {
		b.waiting[b.hold("a", 1, 90, true).ID] = true
	}
	s := b.hold("a", 2, 50, true)
	for _, n := range []int{200, 250} {
		if !b.Grow(s, n) || b.Held[s] != n || b.left > 0 || !slices.Equal(b.Beyond, []*Waiter{s}) {
			t.Fatalf("%d bytes of %d are held, %d left, %d are beyond", b.Held[s], n, b.left, len(b.Beyond))
		}
	}
	b.waiting[s.ID] = true
	if b.settle(); b.left != 2 || len(b.Beyond) > 0 {
		t.Errorf("%d left once it waits, %d are beyond", b.left, len(b.Beyond))
	}
}

// A request for whose body others leave is made to leave by what comes of that: once it has ended nothing of it is
// counted any more.
func TestLeavesWhileOthersLeaveForIt(t *testing.T) {
	b := newBytesLab(t, 1000)
	for range 9 {
		b.hold("a", 1, 100, false)
	}
	s := b.hold("a", 2, 50, false)
	s.Cluster, b.leaves = &clusters.Cluster{Waiting: 1}, s.Callee.GiveWay
	if !b.Grow(s, 200) {
		t.Error("it has no room")
	}
	b.Remove(s)
	if b.Held[s] != 0 || b.of[s.holder] != 0 || b.Bytes != 900 {
		t.Errorf("%d bytes are held, %d of its tenant's and %d in all", b.Held[s], b.of[s.holder], b.Bytes)
	}
	if b.left != 2 {
		t.Errorf("%d left", b.left)
	}
}

// What it costs to refuse a request that announces a large body, which all that may leave would not make room for.
func BenchmarkNoRoomForBytes(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := &Waiters{Held: map[*Waiter]int{}, of: map[holder]int{}, Owners: 1, stores: &stores.Stores{}}
			c := &config.Config{Queue: config.Queue{MaxBytes: 1000 * n}}
			lab := &bytesLab{Waiters: w, cfg: c}
			for range n {
				lab.hold("a", 1, 1000, false)
			}
			s := lab.request("a", 2, false)
			for b.Loop() {
				if lab.MayHold(s, 200_000) {
					b.Fatal("there is room")
				}
			}
		})
	}
}
