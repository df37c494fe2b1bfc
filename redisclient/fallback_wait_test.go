package redisclient_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
)

// waitOutage is two gateways before one endpoint, the first of which is cut off while requests wait.
type waitOutage struct {
	*outage
	order []lb.LeaseID  // of the grants to requests that have waited
	clock time.Duration // of Redis, which only requests move on
	ended map[lb.LeaseID]int
}

func newWaitOutage(t *testing.T) *waitOutage {
	o := &waitOutage{outage: newOutage(t), ended: map[lb.LeaseID]int{}, clock: time.Hour}
	o.b.conn.stopClock(t)
	o.plan = storetest.Even(o.addrs[:1])
	o.plan.Candidates[0].Cap, o.plan.Tokens = 2, 10
	o.plan.Wait = lb.Wait{Max: time.Minute, Length: 100, Class: lb.Class{ID: 1, Weight: 1}}
	return o
}

// ask reserves 5 ms after what was before.
func (o *waitOutage) ask(g *gateway) lb.LeaseID {
	o.now += 5 * time.Millisecond
	o.clock += 5 * time.Millisecond
	o.b.conn.setClock(o.clock, 0)
	o.id++
	id := o.id
	g.Reserve(o.now, id, o.plan, func(grant lb.Grant, err error) {
		if o.ended[id]++; err != nil {
			o.t.Errorf("request %d: %v", id, err)
			return
		}
		g.held[id] = heldLease{o.plan.Scope, o.addrs[grant.Index], 10}
		if grant.Queued {
			o.order = append(o.order, id)
		}
	})
	return id
}

// poll lets so many periods pass.
func (o *waitOutage) poll(periods int) {
	for range periods {
		o.now += 25 * time.Millisecond
		for _, g := range []*gateway{o.a, o.b} {
			g.Expire(o.now)
			g.Poll(o.now)
		}
	}
}

// drain releases what is held, until nobody waits.
func (o *waitOutage) drain() {
	for range 40 {
		for _, g := range []*gateway{o.a, o.b} {
			for id := range g.held {
				o.release(g, id)
				break
			}
		}
		o.poll(2)
	}
}

// cutOff has a request of each gateway served and so many more of each wait. Then the first gateway is cut off.
func (o *waitOutage) cutOff(pairs, fate int) (ofA, ofB lb.LeaseID) {
	o.t.Helper()
	ofA, ofB = o.ask(o.a), o.ask(o.b)
	for range pairs {
		o.ask(o.a)
		o.ask(o.b)
	}
	o.heartbeat()
	o.poll(2)
	o.a.conn.fate = func([]byte) int { return fate }
	o.poll(20)
	if o.a.store.Ready(o.now) || len(o.order) > 0 {
		o.t.Fatalf("ready %v, granted %v", o.a.store.Ready(o.now), o.order)
	}
	return ofA, ofB
}

func TestWaitingThroughAnOutage(t *testing.T) {
	for name, fate := range map[string]int{
		"commands lost": notSent, "replies lost": replyLost, "commands late": runsLate,
	} {
		t.Run(name, func(t *testing.T) {
			o := newWaitOutage(t)
			held, _ := o.cutOff(3, fate)
			late := o.ask(o.a)
			o.release(o.a, held) // of which Redis hears nothing
			o.poll(2)
			if !slices.Equal(o.order, []lb.LeaseID{3}) {
				t.Fatalf("within its part of the cap the first gateway has granted %v", o.order)
			}
			o.a.conn.fate = nil
			o.heartbeat()
			o.a.conn.deliver()
			o.heartbeat()
			o.poll(4)
			o.heartbeat()
			o.poll(2)
			o.drain()
			want := []lb.LeaseID{3, 4, 5, 6, 7, 8, late}
			if !slices.Equal(slices.Sorted(slices.Values(o.order)), want) {
				t.Fatalf("granted %v, want %v", o.order, want)
			}
			for id, calls := range o.ended {
				if calls != 1 {
					t.Errorf("request %d was answered %d times", id, calls)
				}
			}
			if i, j := slices.Index(o.order, 5), slices.Index(o.order, 7); i > j {
				t.Errorf("granted in the order %v", o.order)
			}
			o.heartbeat()
			o.audit()
		})
	}
}

// A wait ends in time, whatever Redis does.
func TestWaitsEndInAnOutage(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	g := newGateway(t, server, 1)
	plan := storetest.Even(storetest.Addrs(1))
	plan.Candidates[0].Cap = 1
	plan.Wait = lb.Wait{Max: time.Second, Length: 100, Class: lb.Class{ID: 1, Weight: 1}}
	now := time.Second
	if err := g.reserve(now, 1, plan); err != nil {
		t.Fatal(err)
	}
	var got error
	g.Reserve(now, 2, plan, func(_ lb.Grant, err error) { got = err })
	g.conn.fate = func([]byte) int { return notSent }
	for now < 2*time.Second {
		g.Expire(now)
		g.Poll(now)
		if now += 25 * time.Millisecond; got != nil && now < 1990*time.Millisecond {
			t.Fatalf("ended after %v with %v", now-time.Second, got)
		}
	}
	g.Poll(now)
	if !errors.Is(got, lb.ErrWaitOver) {
		t.Errorf("the wait ended with %v", got)
	}
}

// What a gateway was granted while it was cut off goes to others when it is back, before its requests have returned: no
// endpoint gets more than it takes.
func TestGrantDuringAnOutage(t *testing.T) {
	o := newWaitOutage(t)
	_, other := o.cutOff(2, notSent)
	o.release(o.b, other) // which grants the first request that waits, of the gateway that is cut off
	o.poll(2)
	if o.a.store.Ready(o.now) || len(o.order) > 0 {
		t.Fatalf("ready %v, granted %v", o.a.store.Ready(o.now), o.order)
	}
	o.a.conn.fate = nil
	for range 10 {
		o.heartbeat()
		o.poll(2)
		if n := len(o.a.held) + len(o.b.held); n > 2 {
			t.Fatalf("%d requests are at an endpoint that takes 2, granted %v", n, o.order)
		}
	}
	o.drain()
	if want := []lb.LeaseID{3, 4, 5, 6}; !slices.Equal(slices.Sorted(slices.Values(o.order)), want) {
		t.Fatalf("granted %v, want %v", o.order, want)
	}
	o.heartbeat()
	o.audit()
}
