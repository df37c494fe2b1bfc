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

// gateway is a ladder over a store in Redis, as a gateway of one worker has it.
type gateway struct {
	*lb.Ladder
	t     *testing.T
	store *redisclient.Store
	local *lb.MemStore
	conn  *wire
	fell  []string
	held  map[lb.LeaseID]share
}

func newGateway(t *testing.T, s *redisserver.Server, owner uint64) *gateway {
	kv := newMemory()
	if err := lb.Prepare(kv); err != nil {
		t.Fatal(err)
	}
	g := &gateway{t: t, conn: dial(t, s), local: lb.NewMemStore(kv, owner, storetest.TTL), held: map[lb.LeaseID]share{}}
	g.store = redisclient.New(g.conn, redisclient.Options{Owner: owner, TTL: storetest.TTL, Timeout: manualTimeout, KV: kv})
	g.Ladder = lb.NewLadder(g.store, g.local)
	g.Fell = func(err error) { g.fell = append(g.fell, redisclient.Cause(err)) }
	return g
}

// reserve reserves, lets the deadline pass if there is no answer, and returns what it came to.
func (g *gateway) reserve(now time.Duration, id lb.LeaseID, p *lb.Plan) error {
	var got error
	calls := 0
	g.Reserve(now, id, p, func(grant lb.Grant, err error) {
		calls++
		if got = err; err == nil {
			g.held[id] = share{p.Scope, p.Candidates[grant.Index].Addr, p.Tokens}
		}
	})
	g.Expire(now + manualTimeout)
	if calls != 1 {
		g.t.Fatalf("reservation %d was answered %d times", id, calls)
	}
	return got
}

// wantMirror expects the embedded store to count what this gateway holds.
func (g *gateway) wantMirror(addrs []string) {
	g.t.Helper()
	loads, err := g.local.Loads("llm", addrs, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	want := sum(g.held)
	for i, l := range loads {
		if l != want[addrs[i]] {
			g.t.Errorf("the embedded store counts %+v at %s, held is %+v", l, addrs[i], want[addrs[i]])
		}
	}
}

// TestLadderThroughAnOutage cuts one of two gateways off: it goes on alone, with its part of the caps, and when Redis is back
// everything that it granted is counted there, once, whatever became of its commands meanwhile.
func TestLadderThroughAnOutage(t *testing.T) {
	for name, fate := range map[string]int{"commands lost": notSent, "answers lost": replyLost, "commands late": late} {
		t.Run(name, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{})
			useScripts(dial(t, server))
			a, b, addrs := newGateway(t, server, 1), newGateway(t, server, 2), storetest.Addrs(4)
			plan := storetest.Even(addrs)
			plan.Tokens = 10
			for i := range plan.Candidates {
				plan.Candidates[i].Cap = 6
			}
			now, id := time.Second, lb.LeaseID(0)
			next := func(g *gateway) error {
				now += 2 * manualTimeout
				id++
				return g.reserve(now, id, plan)
			}
			for range 4 {
				if err := errors.Join(next(a), next(b)); err != nil {
					t.Fatal(err)
				}
			}
			beat := func() {
				now += time.Second
				for _, g := range []*gateway{a, b} {
					if err := g.Beat(now); err != nil {
						t.Fatal(err)
					}
					g.Expire(now + manualTimeout)
				}
			}
			beat()
			a.conn.lose = func([]byte) int { return fate }
			for range 8 { // its part is 3 at each of 4, of which it has 1
				if err := errors.Join(next(a), next(b)); err != nil {
					t.Fatal(err)
				}
			}
			if err := next(a); !errors.Is(err, lb.ErrFull) {
				t.Errorf("beyond its part of the caps: %v", err)
			}
			if n := len(a.fell); n != 9 || a.fell[0] != "timeout" || a.fell[8] != "breaker_open" || len(b.fell) > 0 {
				t.Errorf("fell %v and %v", a.fell, b.fell)
			}
			beat()
			a.wantMirror(addrs)
			for gone := lb.LeaseID(1); gone < 12; gone += 2 { // some of before and some of within the outage
				a.Release(now, gone)
				delete(a.held, gone)
			}
			a.conn.lose = nil
			beat()
			a.conn.deliver()
			beat()
			if err := next(a); err != nil || len(a.fell) != 9 {
				t.Errorf("after the outage: %v, fell %v", err, a.fell)
			}
			wantLoads(t, a.conn, sum(a.held, b.held))
			a.wantMirror(addrs)
			b.wantMirror(addrs)
			for _, g := range []*gateway{a, b} {
				for id := range g.held {
					g.Release(now, id)
				}
				g.held = nil
				g.wantMirror(addrs)
			}
			wantLoads(t, a.conn, nil)
		})
	}
}
