package memstore_test

import (
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
	a.Release(now+time.Second, 1)
	if len(order) > 0 || len(woken) != 1 {
		t.Fatalf("order %v, woken %v: want the other owner woken", order, woken)
	}
	b.Poll(now + time.Second)
	b.Release(now+2*time.Second, 1)
	a.Poll(now + 2*time.Second)
	if len(order) != 2 || order[0] != "b1" || order[1] != "a2" {
		t.Fatalf("order %v", order)
	}
	a.Release(now+3*time.Second, 2)
	if loads, _ := a.Loads("cluster", []string{"e1:1"}, nil); loads[0] != (lb.Load{}) {
		t.Errorf("left over: %v", loads)
	}
	if next := a.Poll(now + 3*time.Second); next != 0 {
		t.Error("polls although nobody waits")
	}
}

// BenchmarkServe is one release, one claim and one new request while many wait.
func BenchmarkServe(b *testing.B) {
	for _, waiting := range []int{20, 2000} {
		b.Run("", func(b *testing.B) {
			p := memstoretest.NewProcess(b)
			s := p.NewStore()
			benchServe(b, s, waiting)
		})
	}
}

func benchServe(b *testing.B, s *memstore.Store, waiting int) {
	plan := waitingPlan(16, "e1:1", "e2:1", "e3:1", "e4:1")
	plan.Wait.Length, plan.Wait.Max, plan.Wait.Aging = 1e6, time.Hour, 0
	now := time.Hour
	var running []lb.LeaseID
	id := lb.LeaseID(0)
	reserve := func() {
		id++
		this := id
		s.Reserve(now, this, plan, func(_ lb.Grant, err error) {
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
		s.Release(now, running[0])
		running = running[1:]
		reserve()
	}
}
