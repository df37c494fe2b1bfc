package lb_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

// name returns the id of a lease, with a star if it was granted without the remote store.
func name(id lb.LeaseID) string {
	if own := id &^ (1 << 63); own != id {
		return fmt.Sprintf("%d*", own)
	}
	return fmt.Sprint(id)
}

// fallback is a FallbackStore over a fake remote store.
type fallback struct {
	*lb.FallbackStore
	t        *testing.T
	remote   *fakeRemote
	local    *memstore.Store
	gate     *memstoretest.Process
	fallback []error
	now      time.Duration
}

func newFallback(t *testing.T) *fallback {
	gate := memstoretest.NewProcess(t)
	l := &fallback{t: t, remote: newFakeRemote(), local: gate.NewStore(), gate: gate, now: time.Hour}
	l.FallbackStore = lb.NewFallbackStore(l.remote, l.local)
	l.OnFallback = func(err error) { l.fallback = append(l.fallback, err) }
	return l
}

// outcome is how a reservation ended.
type outcome struct {
	calls int
	grant lb.Grant
	err   error
}

func (l *fallback) reserve(id lb.LeaseID, p *lb.Plan) *outcome {
	o := &outcome{}
	l.Reserve(l.now, id, p, func(g lb.Grant, err error) { *o = outcome{o.calls + 1, g, err} })
	return o
}

// wantLocal checks the requests in flight that the embedded store counts.
func (l *fallback) wantLocal(addrs []string, want ...int64) {
	l.t.Helper()
	var got []int64
	for _, load := range l.gate.Loads("llm", addrs) {
		got = append(got, load.Requests)
	}
	if !slices.Equal(got, want) {
		l.t.Fatalf("the embedded store counts %v, want %v", got, want)
	}
}

var errBroken = errors.New("broken")

// The answer of the remote store decides whether the embedded store is used.
func TestFallbackSteps(t *testing.T) {
	for _, c := range []struct {
		name     string
		down     bool
		reply    error
		fallback error // nil: the answer counts
		want     error
	}{
		{name: "granted"},
		{name: "full", reply: lb.ErrFull, want: lb.ErrFull},
		{name: "full, with details", reply: fmt.Errorf("llm: %w", lb.ErrFull), want: lb.ErrFull},
		{name: "released", reply: lb.ErrReleased, want: lb.ErrReleased},
		{name: "broken", reply: errBroken, fallback: errBroken},
		{name: "no room there", reply: lb.ErrNoRoom, fallback: lb.ErrNoRoom},
		{name: "down", down: true, fallback: lb.ErrRemoteDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, addrs := newFallback(t), storetest.Addrs(2)
			l.remote.down = c.down
			o := l.reserve(1, storetest.Even(addrs))
			if !c.down {
				l.remote.answer(1, lb.Grant{Index: 1, Load: lb.Load{Requests: 7}}, c.reply)
			}
			if o.calls != 1 || !errors.Is(o.err, c.want) || (o.err == nil) != (c.want == nil) {
				t.Fatalf("answered %d times, with %v, want %v", o.calls, o.err, c.want)
			}
			switch {
			case c.fallback != nil:
				if len(l.fallback) != 1 || !errors.Is(l.fallback[0], c.fallback) {
					t.Fatalf("fallback for %v, want %v", l.fallback, c.fallback)
				}
				if o.grant.Load.Requests != 1 {
					t.Fatalf("the embedded store granted %+v", o.grant)
				}
			case len(l.fallback) > 0:
				t.Fatalf("fallback for %v", l.fallback)
			case c.want == nil && (o.grant.Index != 1 || o.grant.Load.Requests != 7):
				t.Fatalf("granted %+v", o.grant)
			}
			held := 0
			if c.want == nil {
				held = 1
			}
			if l.local.LeaseCount() != held {
				t.Fatalf("the embedded store holds %d leases, want %d", l.local.LeaseCount(), held)
			}
		})
	}
}

// The embedded store counts the grants of the remote one, so that it knows this gateway's own load when it is needed.
func TestFallbackMirrors(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(3)
	p := storetest.Even(addrs)
	p.Tokens = 50
	for id := range lb.LeaseID(4) {
		l.reserve(id+1, p)
		l.remote.answer(id+1, lb.Grant{Index: int(id) % 2}, nil)
	}
	l.wantLocal(addrs, 2, 2, 0)
	l.Amend(l.now, 1, addrs[2], 20)
	l.wantLocal(addrs, 1, 2, 1)
	if got := l.gate.Loads("llm", addrs)[2].Tokens; got != 20 {
		t.Fatalf("%d tokens, want 20", got)
	}
	l.remote.down = true
	o := l.reserve(9, p) // without the remote store, with the loads known
	if o.err != nil || o.grant.Index == 1 {
		t.Fatalf("%+v, %v", o.grant, o.err)
	}
	for _, id := range []lb.LeaseID{1, 2, 3, 4, 9, 9} {
		l.Release(l.now, id)
	}
	l.wantLocal(addrs, 0, 0, 0)
}

// A lease that was granted without the remote store has another id there: the unanswered reservation may still be
// carried out.
func TestFallbackIDs(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	p := storetest.Even(addrs)
	p.Tokens = 8
	l.reserve(5, p)
	l.remote.answer(5, lb.Grant{}, errBroken)
	l.Amend(l.now, 5, "", 3)
	l.Release(l.now, 5)
	l.Release(l.now, 5)
	l.wantLog("reserve 5", "adopt 5* llm "+addrs[0]+" 8", "amend 5*  3", "release 5*", "release 5")

	l.reserve(6, p)
	l.remote.answer(6, lb.Grant{}, nil)
	l.Amend(l.now, 6, addrs[0], 4)
	l.Release(l.now, 6)
	l.wantLog("reserve 6", "amend 6 "+addrs[0]+" 4", "release 6")
}

func TestFallbackReleaseBeforeTheAnswer(t *testing.T) {
	for _, reply := range []error{nil, errBroken, lb.ErrFull} {
		l, addrs := newFallback(t), storetest.Addrs(1)
		o := l.reserve(1, storetest.Even(addrs))
		l.Release(l.now, 1)
		l.remote.answer(1, lb.Grant{}, reply)
		if o.calls != 1 || !errors.Is(o.err, lb.ErrReleased) {
			t.Errorf("answer %v: %v", reply, o.err)
		}
		l.wantLocal(addrs, 0)
		l.wantLog("reserve 1", "release 1")
	}
}

// A release before its reservation takes effect while the remote store is down as well.
func TestFallbackReleaseFirst(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	l.remote.down = true
	l.Release(l.now, 1)
	if o := l.reserve(1, storetest.Even(addrs)); !errors.Is(o.err, lb.ErrReleased) {
		t.Fatalf("a reservation after its release: %v", o.err)
	}
	l.wantLocal(addrs, 0)
	l.wantLog("release 1")
}

// Reserving twice counts once, and a lease stays where it was granted when the remote store is back in between.
func TestFallbackReserveTwice(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(2)
	p := storetest.Even(addrs)
	for range 2 {
		l.reserve(1, p)
		l.remote.answer(1, lb.Grant{Index: 1}, nil)
	}
	l.wantLocal(addrs, 0, 1)
	l.remote.down = true
	first := l.reserve(2, p)
	l.remote.down = false
	again := l.reserve(2, p)
	if again.err != nil || again.grant != first.grant {
		t.Fatalf("granted %+v and then %+v, %v", first.grant, again.grant, again.err)
	}
	l.wantLocal(addrs, 1, 1)
}

// Without the remote store, a gateway uses its share of the caps, by its share of all owners.
func TestFallbackSharesCaps(t *testing.T) {
	for _, c := range []struct {
		name       string
		own, all   int
		limit, get int64
	}{
		{"nothing known of the others", 1, 0, 8, 8},
		{"the only gateway", 2, 2, 8, 8},
		{"fewer known there than here", 2, 1, 8, 8},
		{"one of two", 1, 2, 8, 4},
		{"two of eight", 2, 8, 8, 2},
		{"rounded down", 1, 3, 8, 2},
		{"never nothing", 1, 100, 8, 1},
		{"no cap stays none", 1, 100, 0, 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, addrs := newFallback(t), storetest.Addrs(1)
			p := storetest.Even(addrs)
			for range c.own - 1 { // the other workers of this gateway
				l.gate.NewStore().Reserve(l.now, 1, storetest.Even(storetest.Addrs(2)[1:]), func(lb.Grant, error) {})
			}
			l.remote.down, l.remote.owners = true, c.all
			p.Candidates[0].Cap = 1000
			l.reserve(1, p) // makes this worker an owner as well
			p = storetest.Even(addrs)
			p.Candidates[0].Cap = c.limit
			got := int64(1)
			for id := lb.LeaseID(2); got < 20; id++ {
				if o := l.reserve(id, p); errors.Is(o.err, lb.ErrFull) {
					break
				} else if o.err != nil {
					t.Fatal(o.err)
				}
				got++
			}
			if got != c.get {
				t.Errorf("%d requests in flight, want %d", got, c.get)
			}
			if p.Candidates[0].Cap != c.limit {
				t.Error("the plan's candidates were changed")
			}
			for id := range lb.LeaseID(30) {
				l.Release(l.now, id)
			}
			l.remote.owners = 100 // more gateways have started
			l.reserve(50, p)
			if o := l.reserve(51, p); c.limit > 0 && !errors.Is(o.err, lb.ErrFull) {
				t.Errorf("a hundredth of the cap has room for two: %v", o.err)
			}
		})
	}
}

// Heartbeats and deadlines are the remote store's; if the embedded store cannot grant either, its error is returned.
func TestFallbackPassesOn(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(1)
	if err := l.Heartbeat(l.now); err != nil {
		t.Fatal(err)
	}
	l.wantLog("heartbeat")
	if next := l.Expire(5); next != 6 {
		t.Fatalf("the next deadline is %d", next)
	}
	l.remote.down = true
	p := storetest.Even(addrs)
	p.Candidates[0].Cap = 1
	l.reserve(1, p)
	l.wantLog("adopt 1* llm " + addrs[0] + " 0")
	if o := l.reserve(2, p); !errors.Is(o.err, lb.ErrFull) {
		t.Fatal(o.err)
	}
	l.wantLog()
}

// Whatever the remote store answers, and in whatever order, the embedded store counts the held leases.
func TestFallbackRandomly(t *testing.T) {
	l, addrs := newFallback(t), storetest.Addrs(6)
	rng := rand.New(rand.NewPCG(4, 2))
	held := map[lb.LeaseID]string{}
	next := lb.LeaseID(0)
	for range 5000 {
		switch k := rng.IntN(10); {
		case k < 4:
			next++
			id, p := next, storetest.Even(addrs)
			p.Random = rng.Uint64()
			l.Reserve(l.now, id, p, func(g lb.Grant, err error) {
				if err == nil {
					held[id] = addrs[g.Index]
				}
			})
		case k < 6 && len(l.remote.order) > 0:
			id := l.remote.order[rng.IntN(len(l.remote.order))]
			l.remote.answer(id, lb.Grant{Index: rng.IntN(6)}, []error{nil, nil, lb.ErrFull, errBroken}[rng.IntN(4)])
		case k < 8 && next > 0:
			id := 1 + lb.LeaseID(rng.Int64N(int64(next)))
			l.Release(l.now, id)
			delete(held, id)
		case k < 9:
			l.remote.down = rng.IntN(2) == 0
		default:
			for _, id := range slices.Sorted(maps.Keys(held)) {
				held[id] = addrs[rng.IntN(6)]
				l.Amend(l.now, id, held[id], 9)
				break
			}
		}
	}
	want := map[string]int64{}
	for _, addr := range held {
		want[addr]++
	}
	for i, load := range l.gate.Loads("llm", addrs) {
		if load.Requests != want[addrs[i]] {
			t.Errorf("endpoint %d carries %d, held are %d", i, load.Requests, want[addrs[i]])
		}
	}
	if len(held) < 50 {
		t.Errorf("only %d leases were held at the end", len(held))
	}
}
