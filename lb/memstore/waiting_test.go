package memstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
)

// waitingPlan is a plan for endpoints with the cap, for a request that waits.
func waitingPlan(limit int64, addrs ...string) *lb.Plan {
	p := &lb.Plan{Scope: "cluster", Wait: lb.Wait{
		Max: 10 * time.Second, Class: lb.Class{ID: 1, Weight: 1}, Length: 100, Skip: 8, Aging: 5 * time.Second,
	}}
	for _, a := range addrs {
		p.Candidates = append(p.Candidates, lb.Candidate{Addr: a, Slope: 1, Weight: 1, Cap: limit})
	}
	return p
}

// A request that finds every endpoint full is granted the first one that a request of any owner leaves.
func TestReleaseGrantsTheFirstThatWaits(t *testing.T) {
	p := memstoretest.NewProcess(t)
	a, b := p.NewStore(), p.NewStore()
	now := time.Hour
	plan := waitingPlan(1, "e1:1")
	a.Reserve(now, 1, plan, func(_ lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
	})
	var woken []uint64
	a.OnGrant = func(owner uint64) { woken = append(woken, owner) }
	var order []string
	note := func(name string) func(lb.Grant, error) {
		return func(g lb.Grant, err error) {
			if err != nil || !g.Queued {
				t.Errorf("%s: %+v, %v", name, g, err)
			}
			order = append(order, name)
		}
	}
	b.Reserve(now, 1, plan, note("b1"))
	a.Reserve(now+time.Millisecond, 2, plan, note("a2"))
	if next := b.Poll(now + time.Millisecond); next == 0 || len(order) > 0 {
		t.Fatal("granted although nothing is free")
	}
	a.Release(now+100*time.Millisecond, 1)
	if len(order) > 0 || len(woken) != 1 {
		t.Fatalf("order %v, woken %v: want the other owner woken", order, woken)
	}
	b.Poll(now + 100*time.Millisecond)
	b.Release(now+200*time.Millisecond, 1)
	a.Poll(now + 200*time.Millisecond)
	if len(order) != 2 || order[0] != "b1" || order[1] != "a2" {
		t.Fatalf("order %v", order)
	}
	a.Release(now+300*time.Millisecond, 2)
	if loads, _ := a.Loads("cluster", []string{"e1:1"}, nil); loads[0] != (lb.Load{}) {
		t.Errorf("left over: %v", loads)
	}
	if next := a.Poll(now + 300*time.Millisecond); next != 0 {
		t.Error("polls although nobody waits")
	}
}

// A request that ends while nothing can be written leaves its ticket behind. What that is granted goes to the next one.
func TestTicketLeftBehind(t *testing.T) {
	p := memstoretest.NewProcess(t)
	a, b := p.NewStore(), p.NewStore()
	now, plan := time.Hour, waitingPlan(1, "e1:1")
	var granted []string
	note := func(name string) func(lb.Grant, error) {
		return func(_ lb.Grant, err error) {
			if granted = append(granted, name); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	a.Reserve(now, 1, plan, note("a1"))
	a.Reserve(now, 2, plan, note("a2"))
	b.Reserve(now, 1, plan, note("b1"))
	p.SetErr = func(string) error { return errors.New("write failed") }
	a.Release(now, 2)
	p.SetErr = nil
	a.Release(now, 1)
	b.Poll(now)
	if !slices.Equal(granted, []string{"a1", "b1"}) {
		t.Errorf("granted %v", granted)
	}
	b.Release(now, 1)
	if l := p.Loads("cluster", []string{"e1:1"}); l[0] != (lb.Load{}) {
		t.Errorf("left over: %+v", l[0])
	}
}

// A queue that cannot be read is dropped, and its requests wait in a new one.
func TestDamagedQueueIsDropped(t *testing.T) {
	p := memstoretest.NewProcess(t)
	a, b := p.NewStore(), p.NewStore()
	now, plan := time.Hour, waitingPlan(1, "e1:1")
	granted := 0
	for id := range lb.LeaseID(3) {
		a.Reserve(now, id, plan, func(_ lb.Grant, err error) {
			if granted++; err != nil {
				t.Error(err)
			}
		})
	}
	for key, val := range p.Vals {
		if i := bytes.Index(val, []byte("WGQ6")); strings.Contains(key, "/table/") && i >= 0 {
			val[i+8]++ // one more waits
		}
	}
	b.Reserve(now, 1, plan, func(_ lb.Grant, err error) {
		if granted++; err != nil {
			t.Error(err)
		}
	})
	a.Poll(now)
	if n := a.Queue(now, "cluster").Waiting; n != 3 || granted != 1 {
		t.Fatalf("%d wait and %d were granted, want 3 and 1", n, granted)
	}
	for range 3 {
		a.Release(now, 0)
		a.Release(now, 1)
		a.Release(now, 2)
		b.Poll(now)
	}
	b.Release(now, 1)
	if l := p.Loads("cluster", []string{"e1:1"}); l[0] != (lb.Load{}) || granted != 2 {
		t.Errorf("left over: %+v; %d were granted", l[0], granted)
	}
}

// host is shared memory of which a read allocates memory of the VM, as in a gateway, and a write none.
type host map[string]*hostValue

type hostValue struct {
	val []byte
	cas uint32
}

func newHost(b *testing.B) host {
	h := host{}
	if err := memstore.Prepare(h); err != nil {
		b.Fatal(err)
	}
	return h
}

func (h host) Get(key string) ([]byte, uint32, error) {
	v := h[key]
	if v == nil {
		return nil, 0, lb.ErrNotFound
	}
	return slices.Clone(v.val), v.cas, nil
}

func (h host) Set(key string, val []byte, cas uint32) error {
	v := h[key]
	if v == nil {
		v = &hostValue{}
		h[key] = v
	}
	if cas != 0 && cas != v.cas {
		return lb.ErrMismatch
	}
	v.val, v.cas = append(v.val[:0], val...), v.cas+1
	return nil
}

// BenchmarkServe is one release, one claim and one new request while many wait: of one owner, and of two that take
// turns and wake each other.
func BenchmarkServe(b *testing.B) {
	for owners := 1; owners <= 2; owners++ {
		for _, waiting := range []int{10, 200, 2000, 10000} {
			b.Run(fmt.Sprintf("owners=%d/waiting=%d", owners, waiting), func(b *testing.B) {
				benchServe(b, owners, waiting)
			})
		}
	}
}

func benchServe(b *testing.B, owners, waiting int) {
	plan := waitingPlan(16, "e1:1", "e2:1", "e3:1", "e4:1")
	plan.Wait.Length, plan.Wait.Max, plan.Wait.Aging = 1e6, time.Hour, 0
	p, now := newHost(b), time.Hour
	var stores []*memstore.Store
	woken := false
	for range owners {
		s := memstore.New(p, uint64(len(stores)+1), time.Hour)
		s.OnGrant = func(uint64) { woken = true }
		stores = append(stores, s)
	}
	type lease struct {
		owner int
		id    lb.LeaseID
	}
	var running []lease
	next := 0
	reserve := func() {
		next++
		this := lease{next % 3 % owners, lb.LeaseID(next)}
		stores[this.owner].Reserve(now, this.id, plan, func(_ lb.Grant, err error) {
			if err != nil {
				b.Fatal(err)
			}
			running = append(running, this)
		})
	}
	for range 64 + waiting {
		reserve()
	}
	b.ResetTimer()
	for range b.N {
		now += time.Millisecond
		first := running[0]
		running = running[1:]
		stores[first.owner].Release(now, first.id)
		if woken {
			woken = false
			stores[(first.owner+1)%owners].Poll(now)
		}
		reserve()
	}
	if len(running) != 64 {
		b.Fatalf("%d requests are in flight", len(running))
	}
}
