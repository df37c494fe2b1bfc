package memstore_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
)

// An owner that joins while another sweeps is new, not dead, whatever write of the sweep it comes between.
func TestJoinDuringSweep(t *testing.T) {
	for at := range 300 {
		p, addrs := newProcess(t), storetest.Addrs(1)
		a, b := p.newOwner(), p.newOwner()
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

// An owner that was presumed dead and wakes at any moment of the sweep that returns its leases has them counted again
// after its next beat, without any request of its own.
func TestWakeDuringSweep(t *testing.T) {
	for at := range 300 {
		p, addrs := newProcess(t), storetest.Addrs(1)
		a, z := p.newOwner(), p.newOwner()
		reserve(t, a, 1, storetest.Even(addrs))
		reserve(t, z, 1, storetest.Even(addrs))
		now := time.Hour + 2*storetest.TTL
		gets, woke := 0, false
		p.OnGet = func(string) {
			if gets == at && !woke {
				woke = true
				if err := z.Heartbeat(now); err != nil {
					t.Errorf("the waking owner's beat: %v", err)
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
			t.Fatalf("waking at read %d of a sweep: %d requests counted, want 2", at, l[0].Requests)
		}
		if !woke {
			return
		}
	}
}

// A table that was destroyed is left by all owners alike, and what they hold is counted in its place.
func TestDamagedTableIsLeft(t *testing.T) {
	p, addrs := newProcess(t), storetest.Addrs(1)
	a, b := p.newOwner(), p.newOwner()
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

// A cluster larger than a table is refused, and what is counted already goes on.
func TestTooManyEndpoints(t *testing.T) {
	p := newProcess(t)
	s := p.newOwner()
	many := storetest.Even(nil)
	for i := range 4097 {
		many.Candidates = append(many.Candidates, lb.Candidate{Addr: "10.1.0.1:" + string(rune(0x4e00+i)), Slope: 1, Weight: 1})
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

// The clock that owners share is monotonic. Should it jump all the same, counts may come back late or early, but they are
// right again once the owners have beaten.
func TestClockJumps(t *testing.T) {
	p, addrs := newProcess(t), storetest.Addrs(1)
	a, b := p.newOwner(), p.newOwner()
	reserve(t, a, 1, storetest.Even(addrs))
	reserve(t, b, 1, storetest.Even(addrs))
	for _, now := range []time.Duration{
		time.Hour + time.Second, time.Minute, 0, -time.Hour, 48 * time.Hour, time.Hour, 2 * time.Hour, time.Second,
	} {
		for range 2 {
			for _, s := range []*memstore.Store{a, b} {
				if err := s.Heartbeat(now); err != nil {
					t.Fatalf("beat at %v: %v", now, err)
				}
			}
			now += 1100 * time.Millisecond
		}
		if l := p.Loads("llm", addrs); l[0].Requests != 2 {
			t.Fatalf("after the clock went to %v, %d requests are counted, want 2", now, l[0].Requests)
		}
	}
}
