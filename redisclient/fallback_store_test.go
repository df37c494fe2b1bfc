package redisclient_test

import (
	"errors"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// gateway is a FallbackStore over a store in Redis, as in a gateway with one worker.
type gateway struct {
	*lb.FallbackStore
	t     *testing.T
	store *redisclient.Store
	local *lb.MemStore
	conn  *syncTransport
	fell  []string
	held  map[lb.LeaseID]heldLease
}

func newGateway(t *testing.T, s *redisserver.Server, owner uint64) *gateway {
	kv := newMemory()
	if err := lb.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	g := &gateway{
		t: t, conn: dial(t, s), local: lb.NewMemStore(kv, owner, storetest.TTL), held: map[lb.LeaseID]heldLease{},
	}
	g.store = redisclient.New(g.conn, redisclient.Options{
		Owner: owner, TTL: storetest.TTL, Timeout: manualTimeout, KV: kv,
	})
	g.FallbackStore = lb.NewFallbackStore(g.store, g.local)
	g.Fell = func(err error) { g.fell = append(g.fell, redisclient.Cause(err)) }
	return g
}

// reserve reserves, lets the deadline pass if there is no answer, and returns the error.
func (g *gateway) reserve(now time.Duration, id lb.LeaseID, p *lb.Plan) error {
	var got error
	calls := 0
	g.Reserve(now, id, p, func(grant lb.Grant, err error) {
		calls++
		if got = err; err == nil {
			g.held[id] = heldLease{p.Scope, p.Candidates[grant.Index].Addr, p.Tokens}
		}
	})
	g.Expire(now + manualTimeout)
	if calls != 1 {
		g.t.Fatalf("reservation %d was answered %d times", id, calls)
	}
	return got
}

// wantMirror checks that the embedded store counts what this gateway holds.
func (g *gateway) wantMirror(addrs []string) {
	g.t.Helper()
	loads, err := g.local.Loads("llm", addrs, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	want := sumLoads(g.held)
	for i, l := range loads {
		if l != want[addrs[i]] {
			g.t.Errorf("the embedded store counts %+v at %s, held is %+v", l, addrs[i], want[addrs[i]])
		}
	}
}

// outage is two gateways on one server, the first of which will be cut off.
type outage struct {
	t     *testing.T
	a, b  *gateway
	addrs []string
	plan  *lb.Plan
	now   time.Duration
	id    lb.LeaseID
}

func newOutage(t *testing.T) *outage {
	server := redisserver.StartT(t, redisserver.Options{})
	loadScripts(dial(t, server))
	o := &outage{
		t: t, a: newGateway(t, server, 1), b: newGateway(t, server, 2), addrs: storetest.Addrs(4), now: time.Second,
	}
	o.plan = storetest.Even(o.addrs)
	o.plan.Tokens = 10
	for i := range o.plan.Candidates {
		o.plan.Candidates[i].Cap = 6
	}
	return o
}

func (o *outage) next(g *gateway) error {
	o.now += 2 * manualTimeout
	o.id++
	return g.reserve(o.now, o.id, o.plan)
}

// both has each gateway reserve n times.
func (o *outage) both(n int) {
	o.t.Helper()
	for range n {
		if err := errors.Join(o.next(o.a), o.next(o.b)); err != nil {
			o.t.Fatal(err)
		}
	}
}

func (o *outage) heartbeat() {
	o.now += time.Second
	for _, g := range []*gateway{o.a, o.b} {
		if err := g.Heartbeat(o.now); err != nil {
			o.t.Fatal(err)
		}
		g.Expire(o.now + manualTimeout)
	}
}

func (o *outage) release(g *gateway, id lb.LeaseID) {
	g.Release(o.now, id)
	delete(g.held, id)
}

// audit checks that Redis counts what both hold, and each embedded store what its gateway holds.
func (o *outage) audit() {
	o.t.Helper()
	wantLoads(o.t, o.a.conn, sumLoads(o.a.held, o.b.held))
	o.a.wantMirror(o.addrs)
	o.b.wantMirror(o.addrs)
}

// One of two gateways cannot reach Redis: it continues locally, with its part of the caps. When Redis is back,
// everything that it granted is counted there once, whatever happened to its commands during the outage.
func TestFallbackThroughAnOutage(t *testing.T) {
	for name, fate := range map[string]int{
		"commands lost": notSent, "replies lost": replyLost, "commands late": runsLate,
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t)
			o.both(4)
			o.heartbeat()
			o.a.conn.fate = func([]byte) int { return fate }
			o.both(8) // its part is 3 at each of 4 endpoints, of which it has 1
			if err := o.next(o.a); !errors.Is(err, lb.ErrFull) {
				t.Errorf("beyond its part of the caps: %v", err)
			}
			fell := o.a.fell
			if len(fell) != 9 || fell[0] != "timeout" || fell[8] != "breaker_open" || len(o.b.fell) > 0 {
				t.Errorf("fell %v and %v", fell, o.b.fell)
			}
			o.heartbeat()
			o.a.wantMirror(o.addrs)
			for id := lb.LeaseID(1); id < 12; id += 2 { // some of before and some of within the outage
				o.release(o.a, id)
			}
			o.a.conn.fate = nil
			o.heartbeat()
			o.a.conn.deliver()
			o.heartbeat()
			if err := o.next(o.a); err != nil || len(o.a.fell) != 9 {
				t.Errorf("after the outage: %v, fell %v", err, o.a.fell)
			}
			o.audit()
			for _, g := range []*gateway{o.a, o.b} {
				for id := range g.held {
					o.release(g, id)
				}
			}
			o.audit()
		})
	}
}
