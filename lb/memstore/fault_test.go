package memstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/memstore/memstoretest"
	"github.com/warmgate/warmgate/lb/storetest"
)

// An owner that becomes a member during a sweep of another counts as new, not as dead, at whichever read of the sweep.
func TestJoinDuringSweep(t *testing.T) {
	for at := range 300 {
		p, addrs := memstoretest.NewProcess(t), storetest.Addrs(1)
		a, b := p.NewStore(), p.NewStore()
		reserve(t, a, 1, storetest.Even(addrs))
		gets, joined := 0, false
		p.OnGet = func(string) {
			if gets == at && !joined {
				joined = true
				reserveAt(t, b, time.Hour, 1, storetest.Even(addrs))
			}
			gets++
		}
		if err := a.Heartbeat(time.Hour + time.Second); err != nil {
			t.Fatal(err)
		}
		p.OnGet = nil
		if !joined {
			if at < 250 {
				t.Fatalf("the sweep made only %d reads: nothing was tested", at)
			}
			return
		}
		if l := p.Loads("llm", addrs); l[0].Requests != 2 {
			t.Fatalf("joining at read %d of a sweep: %d requests counted, want 2", at, l[0].Requests)
		}
	}
}

// The leases of an owner whose heartbeats stopped, and resume at any read of the sweep that returns them, are counted
// again after its next heartbeat, without a request of its own.
func TestResumeDuringSweep(t *testing.T) {
	for at := range 300 {
		p, addrs := memstoretest.NewProcess(t), storetest.Addrs(1)
		a, z := p.NewStore(), p.NewStore()
		reserve(t, a, 1, storetest.Even(addrs))
		reserve(t, z, 1, storetest.Even(addrs))
		now := time.Hour + 2*storetest.TTL
		gets, resumed := 0, false
		p.OnGet = func(string) {
			if gets == at && !resumed {
				resumed = true
				if err := z.Heartbeat(now); err != nil {
					t.Errorf("the heartbeat of the resuming owner: %v", err)
				}
			}
			gets++
		}
		if err := a.Heartbeat(now); err != nil {
			t.Fatal(err)
		}
		p.OnGet = nil
		for _, s := range []*memstore.Store{z, a, z} {
			now += time.Second
			if err := s.Heartbeat(now); err != nil {
				t.Fatal(err)
			}
		}
		if l := p.Loads("llm", addrs); l[0].Requests != 2 {
			t.Fatalf("resuming at read %d of a sweep: %d requests counted, want 2", at, l[0].Requests)
		}
		if !resumed {
			return
		}
	}
}

// All owners give up a table that was overwritten with something else, and count what they hold in a new one.
func TestDamagedTableIsReplaced(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(1)
	a, b := p.NewStore(), p.NewStore()
	reserve(t, a, 1, storetest.Even(addrs))
	for key, val := range p.Vals {
		if strings.Contains(key, "/table/") && len(val) > 1 {
			p.Vals[key] = []byte("something else altogether")
		}
	}
	reserve(t, b, 1, storetest.Even(addrs))
	reserve(t, a, 2, storetest.Even(addrs))
	if l := p.Loads("llm", addrs); l[0].Requests != 3 {
		t.Fatalf("%d requests counted, want 3", l[0].Requests)
	}
	for id := range lb.LeaseID(3) {
		a.Release(time.Hour, id)
	}
	b.Release(time.Hour, 1)
	if l := p.Loads("llm", addrs); l[0] != (lb.Load{}) {
		t.Fatalf("after the drain: %+v", l[0])
	}
}

// A cluster with more endpoints than a table has rows is refused; endpoints that are counted already are not affected.
func TestTooManyEndpoints(t *testing.T) {
	p := memstoretest.NewProcess(t)
	s := p.NewStore()
	many := storetest.Even(nil)
	for i := range 4097 {
		addr := "10.1.0.1:" + string(rune(0x4e00+i))
		many.Candidates = append(many.Candidates, lb.Candidate{Addr: addr, Slope: 1, Weight: 1})
	}
	reserve(t, s, 1, storetest.Even(storetest.Addrs(2)))
	s.Reserve(time.Hour, 2, many, func(_ lb.Grant, err error) {
		if !errors.Is(err, lb.ErrNoRoom) {
			t.Errorf("4097 endpoints: %v", err)
		}
	})
	many.Candidates = many.Candidates[:4000]
	reserve(t, s, 3, many)
	if l := p.Loads("llm", []string{many.Candidates[0].Addr}); l[0].Requests != 1 {
		t.Errorf("with 4000 endpoints %d requests are counted at the first, want 1", l[0].Requests)
	}
}

// The clock that owners share is monotonic. If it jumps nevertheless, leases may be returned early or late, but the
// counts are right again after the next heartbeats.
func TestClockJumps(t *testing.T) {
	p, addrs := memstoretest.NewProcess(t), storetest.Addrs(1)
	a, b := p.NewStore(), p.NewStore()
	reserve(t, a, 1, storetest.Even(addrs))
	reserve(t, b, 1, storetest.Even(addrs))
	for _, now := range []time.Duration{
		time.Hour + time.Second, time.Minute, 0, -time.Hour, 48 * time.Hour, time.Hour, 2 * time.Hour, time.Second,
	} {
		for range 2 {
			for _, s := range []*memstore.Store{a, b} {
				if err := s.Heartbeat(now); err != nil {
					t.Fatalf("heartbeat at %v: %v", now, err)
				}
			}
			now += 1100 * time.Millisecond
		}
		if l := p.Loads("llm", addrs); l[0].Requests != 2 {
			t.Fatalf("after the clock jumped to %v, %d requests are counted, want 2", now, l[0].Requests)
		}
	}
}
