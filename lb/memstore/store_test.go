package memstore_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return memstoretest.NewProcess(t) })
}

// busyProcess has owners that always defer releases. Loads flushes those that are alive first.
type busyProcess struct {
	*memstoretest.Process
	owners []*busyOwner
}

// busyOwner has the time of its latest call.
type busyOwner struct {
	*memstore.Store
	at time.Duration
}

func (o *busyOwner) Reserve(now time.Duration, id lb.LeaseID, p *lb.Plan, done func(lb.Grant, error)) {
	o.at = now
	o.Store.Reserve(now, id, p, done)
}

func (o *busyOwner) Release(now time.Duration, id lb.LeaseID) {
	o.at = now
	o.Busy()
	o.Store.Release(now, id)
}

func (o *busyOwner) Heartbeat(now time.Duration) error {
	o.at = now
	return o.Store.Heartbeat(now)
}

func (p *busyProcess) NewOwner() lb.Store {
	o := &busyOwner{Store: p.NewStore()}
	p.owners = append(p.owners, o)
	return o
}

func (p *busyProcess) Loads(scope string, addrs []string) []lb.Load {
	var last time.Duration
	for _, o := range p.owners {
		last = max(last, o.at)
	}
	for _, o := range p.owners {
		if last-o.at <= storetest.TTL {
			o.Flush(last)
		}
	}
	return p.Process.Loads(scope, addrs)
}

func TestConformanceUnderLoad(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Backend { return &busyProcess{Process: memstoretest.NewProcess(t)} })
}

// Under load a release waits for the next reservation, and both are one compare-and-swap. Flush ends the wait.
func TestReleasesAreDeferred(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(1)
	s := p.NewStore()
	for id := range lb.LeaseID(5) {
		reserve(t, s, id, storetest.Even(addrs))
	}
	s.Busy()
	swaps := 0
	p.SetErr = func(key string) error {
		if strings.Contains(key, "/table/") {
			swaps++
		}
		return nil
	}
	for id := range lb.LeaseID(4) {
		s.Release(time.Hour, id)
	}
	if l := p.Loads("llm", addrs)[0]; l.Requests != 5 || swaps != 0 {
		t.Fatalf("%d in flight after %d swaps, want 5 after none", l.Requests, swaps)
	}
	if g := reserve(t, s, 10, storetest.Even(addrs)); g.Load.Requests != 2 || swaps != 1 {
		t.Fatalf("the next reservation made %d swaps and found %d in flight, want 1 and 2", swaps, g.Load.Requests)
	}
	s.Release(time.Hour, 10)
	s.Flush(time.Hour)
	if l := p.Loads("llm", addrs)[0]; l.Requests != 1 {
		t.Fatalf("%d in flight after the flush", l.Requests)
	}
	s.Flush(time.Hour) // no reservation since: no longer busy
	s.Release(time.Hour, 4)
	if l := p.Loads("llm", addrs)[0]; l.Requests != 0 {
		t.Fatalf("%d in flight although nothing was busy", l.Requests)
	}
}

func TestPrepareKeepsExistingValues(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(1)
	reserve(t, p.NewStore(), 1, storetest.Even(addrs))
	if err := memstore.Prepare(p.Memory); err != nil {
		t.Fatal(err)
	}
	if l := p.Loads("llm", addrs); l[0].Requests != 1 {
		t.Fatalf("a second Prepare left %+v", l[0])
	}
}

func TestUnpreparedMemory(t *testing.T) {
	s := memstore.New(storetest.NewMemory(), 1, storetest.TTL)
	s.Reserve(0, 1, storetest.Even(storetest.Addrs(1)), func(_ lb.Grant, err error) {
		if !errors.Is(err, lb.ErrUnready) {
			t.Errorf("reserving without prepared memory: %v", err)
		}
	})
	if err := s.Heartbeat(0); !errors.Is(err, lb.ErrUnready) {
		t.Errorf("heartbeat without prepared memory: %v", err)
	}
}

func reserve(t testing.TB, s lb.Store, id lb.LeaseID, p *lb.Plan) lb.Grant {
	t.Helper()
	var grant lb.Grant
	s.Reserve(time.Hour, id, p, func(g lb.Grant, err error) {
		if err != nil {
			t.Fatalf("reserve %d: %v", id, err)
		}
		grant = g
	})
	return grant
}

// A worker dies after any of its writes. All its leases must be returned within TTL + 1 s, and no others.
func TestDeathAfterAnyWrite(t *testing.T) {
	t.Run("quiet", func(t *testing.T) { testDeath(t, func(*memstore.Store) {}) })
	t.Run("under load", func(t *testing.T) { testDeath(t, (*memstore.Store).Busy) })
}

func testDeath(t *testing.T, prepare func(*memstore.Store)) {
	addrs := storetest.Addrs(3)
	for writes := range 40 {
		p := memstoretest.NewProcess(t)
		other := p.NewStore()
		reserve(t, other, 1, storetest.Even(addrs[:1]))
		dying, left := p.NewStore(), writes
		p.SetErr = func(string) error {
			if left == 0 {
				panic("dead")
			}
			left--
			return nil
		}
		finished := live(dying, addrs, prepare)
		p.SetErr = nil
		if finished && writes < 12 {
			t.Fatalf("the worker needed only %d writes: nothing was tested", writes)
		}
		now := time.Hour
		for range 7 {
			now += time.Second
			if err := other.Heartbeat(now); err != nil {
				t.Fatal(err)
			}
		}
		got := p.Loads("llm", addrs)
		if want := []lb.Load{{Requests: 1}, {}, {}}; !slices.Equal(got, want) {
			t.Fatalf("after death at write %d the loads are %v, want %v", writes, got, want)
		}
		if other.Stats.Corrected != 0 {
			t.Fatalf("after death at write %d the totals were not the sum of what the members held", writes)
		}
	}
}

// live lets a worker make reservations, amendments and releases, and reports whether it survived.
func live(s *memstore.Store, addrs []string, prepare func(*memstore.Store)) (finished bool) {
	defer func() { _ = recover() }()
	plan := storetest.Even(addrs)
	plan.Tokens = 100
	for id := range lb.LeaseID(8) {
		prepare(s)
		s.Reserve(time.Hour, id, plan, func(lb.Grant, error) {})
		if id%2 == 1 {
			s.Amend(time.Hour, id-1, addrs[2], 10)
			s.Release(time.Hour, id)
		}
		if id%4 == 3 {
			_ = s.Heartbeat(time.Hour)
		}
	}
	return true
}

// All workers at the same time: no update is lost, and a burst is spread to within one request.
func TestBurst(t *testing.T) {
	const workers, each = 4, 250
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(8)
	stores := make([]*memstore.Store, workers)
	for i := range stores {
		stores[i] = p.NewStore()
	}
	together(stores, func(w int, s *memstore.Store) {
		plan := storetest.Even(addrs)
		for id := range lb.LeaseID(each) {
			plan.Random = uint64(id)*2654435761 + uint64(w)
			s.Reserve(time.Hour, id, plan, func(_ lb.Grant, err error) {
				if err != nil {
					t.Errorf("worker %d: %v", w, err)
				}
			})
		}
	})
	var smallest, largest, sum int64 = 1 << 40, 0, 0
	for _, l := range p.Loads("llm", addrs) {
		smallest, largest, sum = min(smallest, l.Requests), max(largest, l.Requests), sum+l.Requests
	}
	if sum != workers*each || largest-smallest > 1 {
		t.Fatalf("%d requests counted, between %d and %d per endpoint", sum, smallest, largest)
	}
	together(stores, func(_ int, s *memstore.Store) {
		for id := range lb.LeaseID(each) {
			s.Release(time.Hour, id)
		}
	})
	for i, l := range p.Loads("llm", addrs) {
		if l != (lb.Load{}) {
			t.Fatalf("after the drain endpoint %d carries %+v", i, l)
		}
	}
}

func together(stores []*memstore.Store, f func(int, *memstore.Store)) {
	var wg sync.WaitGroup
	for w, s := range stores {
		wg.Add(1)
		go func() {
			defer wg.Done()
			f(w, s)
		}()
	}
	wg.Wait()
}

// An amendment whose write fails is made by the next heartbeat: where the lease shall count, and what it adds there by
// then.
func TestFailingAmends(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(2)
	s := p.NewStore()
	for id := range lb.LeaseID(3) {
		reserve(t, s, id, storetest.Even(addrs[:1]))
	}
	p.SetErr = func(string) error { return errors.New("write failed") }
	s.Amend(time.Hour, 0, addrs[1], 100)
	s.Amend(time.Hour, 0, "", 70)
	s.Amend(time.Hour, 1, addrs[1], 1000)
	s.Release(time.Hour, 1)
	s.Amend(time.Hour, 2, "", 5)
	p.SetErr = nil
	s.Amend(time.Hour, 2, "", 6)
	if err := s.Heartbeat(time.Hour); err != nil {
		t.Fatal(err)
	}
	want := []lb.Load{{Requests: 1, Tokens: 6}, {Requests: 1, Tokens: 70}}
	if l := p.Loads("llm", addrs); !slices.Equal(l, want) {
		t.Fatalf("after the heartbeat: %v, want %v", l, want)
	}
}

// After a failed write a reservation is refused, and a release is written with the next heartbeat.
func TestFailingWrites(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(2)
	s := p.NewStore()
	reserve(t, s, 1, storetest.Even(addrs[:1]))
	p.SetErr = func(string) error { return errors.New("write failed") }
	s.Reserve(time.Hour, 2, storetest.Even(addrs), func(_ lb.Grant, err error) {
		if err == nil {
			t.Error("reserved although writes fail")
		}
	})
	s.Release(time.Hour, 1)
	p.SetErr = nil
	if err := s.Heartbeat(time.Hour); err != nil {
		t.Fatal(err)
	}
	if l := p.Loads("llm", addrs); l[0] != (lb.Load{}) || l[1] != (lb.Load{}) {
		t.Fatalf("after the heartbeat: %v", l)
	}
}

// Endless contention ends in an error.
func TestContention(t *testing.T) {
	p := memstoretest.NewProcess(t)
	s := p.NewStore()
	reserve(t, s, 1, storetest.Even(storetest.Addrs(2)))
	p.SetErr = func(string) error { return lb.ErrMismatch }
	s.Reserve(time.Hour, 2, storetest.Even(storetest.Addrs(2)), func(_ lb.Grant, err error) {
		if !errors.Is(err, lb.ErrContended) {
			t.Errorf("endless contention: %v", err)
		}
	})
	if s.Stats.Retries == 0 {
		t.Error("no retry was counted")
	}
}

// Totals that were overwritten are corrected from what the members hold, and counted in Stats.
func TestDamageIsCorrected(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(2)
	s := p.NewStore()
	reserve(t, s, 1, storetest.Even(addrs[:1]))
	for key, val := range p.Vals {
		if len(val) > 128 && key[:17] == "warmgate/4/table/" {
			val[16+112] = 77 // the first row's requests, behind the header and one member
		}
	}
	if l := p.Loads("llm", addrs); l[0].Requests != 77 {
		t.Fatalf("nothing was overwritten: %v", l)
	}
	if err := s.Heartbeat(time.Hour); err != nil {
		t.Fatal(err)
	}
	if l := p.Loads("llm", addrs); l[0].Requests != 1 || s.Stats.Corrected != 1 {
		t.Fatalf("after the heartbeat: %v, corrected %d", l, s.Stats.Corrected)
	}
}
