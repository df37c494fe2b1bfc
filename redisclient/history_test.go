package redisclient_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

const (
	historySegments = 20   // of the history on each version
	historySteps    = 1000 // of a segment
)

// TestHistories runs random histories of several owners over rough connections, while Redis loses keys, scripts or all
// it has, and owners crash. At any time the totals are the sum of the leases in Redis, unless keys were lost one by
// one. When the roughness has ended for a TTL and two seconds, both are what the owners hold.
func TestHistories(t *testing.T) {
	for i, version := range redisserver.Versions() {
		seed := uint64(time.Now().UnixNano()) + uint64(i)
		t.Run(fmt.Sprintf("%s seed %d", version, seed), func(t *testing.T) {
			h := newHistory(t, redisserver.StartT(t, redisserver.Options{Version: version}), seed)
			for range historySegments {
				for range historySteps {
					h.step()
				}
				h.calm()
				h.auditHeld()
			}
			h.drain()
			if !t.Failed() {
				t.Logf("%d reservations granted, %d refused; %v", h.granted, h.refused, h.what)
			}
		})
	}
}

// history is several owners on one server.
type history struct {
	t       *testing.T
	rng     *rand.Rand
	server  *redisserver.Server
	root    *syncTransport // for looking, and for losing data
	kv      *memory
	actors  []*actor
	owners  uint64
	next    lb.LeaseID
	now     time.Duration
	beaten  time.Duration // when beats were sent last
	addrs   []string
	maimed  bool // single keys were lost since the last calm
	granted int
	refused int
	what    map[string]int // happened how often
}

// actor is one owner and what it holds.
type actor struct {
	*redisclient.Store
	conn  *rough
	asked map[lb.LeaseID]bool // false once it was released
	held  map[lb.LeaseID]heldLease
}

// heldLease is what a lease counts for.
type heldLease struct {
	scope, addr string
	tokens      int64
}

var historyScopes = []string{"llm", "llm", "llm", "other"}

func newHistory(t *testing.T, s *redisserver.Server, seed uint64) *history {
	h := &history{
		t: t, rng: rand.New(rand.NewPCG(seed, 9)), server: s, root: dial(t, s), kv: newMemory(), now: time.Hour,
		addrs: storetest.Addrs(12), what: map[string]int{},
	}
	h.root.value("FLUSHALL")
	for range 4 {
		h.join()
	}
	return h
}

func (h *history) join() {
	h.owners++
	r := &rough{conn: dial(h.t, h.server), rng: h.rng, share: 0.1 * h.rng.Float64()}
	h.actors = append(h.actors, &actor{
		Store: redisclient.New(r, redisclient.Options{
			Owner: h.owners, TTL: storetest.TTL, Timeout: 20 * time.Millisecond, KV: h.kv,
		}),
		conn: r, asked: map[lb.LeaseID]bool{}, held: map[lb.LeaseID]heldLease{},
	})
}

func (h *history) step() {
	a := h.actors[h.rng.IntN(len(h.actors))]
	switch k := h.rng.IntN(1000); {
	case k < 430:
		h.reserve(a)
	case k < 780:
		h.release(a)
	case k < 850:
		h.amend(a)
	case k < 880:
		h.leave(a)
	case k < 900:
		h.next++
		a.Release(h.now, h.next)
		h.reserveAs(a, h.next, lb.ErrReleased)
	case k < 990:
		h.pass(time.Duration(h.rng.IntN(60)) * time.Millisecond)
	default:
		h.disturb(a)
	}
	if h.rng.IntN(20) == 0 && !h.maimed {
		h.auditSums()
	}
}

func (h *history) reserve(a *actor) {
	h.next++
	h.reserveAs(a, h.next, nil)
}

// reserveAs plans over a random part of the endpoints, as different views and health would.
func (h *history) reserveAs(a *actor, id lb.LeaseID, want error) {
	from := h.rng.IntN(6)
	p := storetest.Even(h.addrs[from : from+2+h.rng.IntN(5)])
	p.Scope = historyScopes[h.rng.IntN(len(historyScopes))]
	if h.rng.IntN(2) == 0 {
		p = storetest.WithPrompt(p, h.rng.Float64(), storetest.Blocks(1, h.rng.Uint64N(2), h.rng.Uint64N(2)))
	}
	p.Unit, p.Tokens, p.Tie = lb.Unit(h.rng.IntN(2)), int64(h.rng.IntN(3000)), h.rng.Uint64()
	a.asked[id] = true
	calls := 0
	a.Reserve(h.now, id, p, func(g lb.Grant, err error) {
		if calls++; calls > 1 {
			h.t.Fatalf("reservation %d was answered twice", id)
		}
		waited := a.asked[id]
		delete(a.asked, id)
		switch {
		case want != nil && !errors.Is(err, want), !waited && !errors.Is(err, lb.ErrReleased):
			h.t.Fatalf("reservation %d after its release: %v", id, err)
		case err == nil:
			h.granted++
			a.held[id] = heldLease{p.Scope, p.Candidates[g.Index].Addr, p.Work(g.Cached)}
			if h.rng.IntN(20) == 0 {
				a.ForgetPrompt(h.now, id, p, p.Candidates[g.Index].Addr, h.rng.IntN(12))
			}
		default:
			h.refused++
		}
	})
}

// release gives back one lease, sometimes twice.
func (h *history) release(a *actor) {
	if len(a.held) == 0 {
		return
	}
	id := sortedIDs(a.held)[0]
	for range 1 + h.rng.IntN(2) {
		a.Release(h.now, id)
	}
	delete(a.held, id)
}

// leave gives back a lease whose reservation has no answer yet, if there is one.
func (h *history) leave(a *actor) {
	for _, id := range sortedIDs(a.asked) {
		if a.asked[id] {
			a.asked[id] = false
			a.Release(h.now, id)
			h.what["released while asked for"]++
			return
		}
	}
}

func (h *history) amend(a *actor) {
	ids := sortedIDs(a.held)
	if len(ids) == 0 {
		return
	}
	id := ids[h.rng.IntN(len(ids))]
	l := a.held[id]
	to := ""
	if h.rng.IntN(2) == 0 {
		to = h.addrs[h.rng.IntN(len(h.addrs))]
		l.addr = to
	}
	l.tokens = int64(h.rng.IntN(3000))
	a.Amend(h.now, id, to, l.tokens)
	a.held[id] = l
}

// sortedIDs makes a run depend on nothing but its seed.
func sortedIDs[V any](m map[lb.LeaseID]V) []lb.LeaseID {
	ids := make([]lb.LeaseID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// pass lets time go by: deadlines come, delayed things happen, and once a second all beat.
func (h *history) pass(d time.Duration) {
	h.now += d
	for _, a := range h.actors {
		a.conn.step(h.now)
		a.Expire(h.now)
	}
	if since := h.now - h.beaten; since >= time.Second {
		h.beaten = h.now
		(&backend{conn: h.root}).Pass(min(since, time.Second))
		for _, a := range h.actors {
			if err := a.Heartbeat(h.now); err != nil {
				h.t.Fatal(err)
			}
		}
	}
}

// disturb does something bad to Redis or to an owner.
func (h *history) disturb(a *actor) {
	switch k := h.rng.IntN(20); {
	case k == 0:
		h.what["everything lost"]++
		h.root.value("FLUSHALL")
	case k < 5:
		h.what["scripts lost"]++
		h.root.value("SCRIPT", "FLUSH")
	case k < 9:
		if keys := h.keys(); len(keys) > 0 {
			key := keys[h.rng.IntN(len(keys))]
			h.root.value("DEL", key)
			h.maimed = true
			h.what["lost a key"]++
		}
	case k < 12:
		h.what["owner crashed"]++
		h.actors = slices.DeleteFunc(h.actors, func(b *actor) bool { return a == b })
		h.join()
	default:
		h.what["connection went bad or better"]++
		a.conn.share = []float64{0, 0.05, 0.3, 1}[h.rng.IntN(4)]
	}
}

func (h *history) keys() (keys []string) {
	for _, key := range h.root.value("KEYS", "*").Items {
		keys = append(keys, string(key.Str))
	}
	slices.Sort(keys)
	return keys
}

// calm ends all roughness and lets a TTL and two seconds pass.
func (h *history) calm() {
	for _, a := range h.actors {
		a.conn.calm(h.now)
	}
	for range int((storetest.TTL + 2*time.Second) / time.Second) {
		h.pass(time.Second)
	}
	h.maimed = false
	for _, a := range h.actors {
		if len(a.asked) > 0 {
			h.t.Fatalf("%d reservations were never answered", len(a.asked))
		}
		if !a.Ready(h.now) {
			h.t.Fatal("the breaker is still open")
		}
		a.conn.share = 0.1 * h.rng.Float64()
	}
}

// drain releases everything: nothing may remain.
func (h *history) drain() {
	for _, a := range h.actors {
		for _, id := range sortedIDs(a.held) {
			a.Release(h.now, id)
		}
		a.held = map[lb.LeaseID]heldLease{}
	}
	h.calm()
	h.auditHeld()
	for _, key := range h.keys() {
		if h.root.value("PTTL", key).Int <= 0 {
			h.t.Errorf("%s lives for ever", key)
		}
	}
}
