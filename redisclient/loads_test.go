package redisclient_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// Loads are summed over two owners, both for one of them and for a store without leases, which does not become an
// owner.
func TestLoadsOfAllOwners(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			a, p := newBatchedStore(t, server, 1)
			store := func(owner uint64) *redisclient.Store {
				return newStore(p, owner, time.Second)
			}
			b, idle := store(2), store(3)
			addrs := storetest.Addrs(4)
			for i, addr := range []string{addrs[0], addrs[1], addrs[1]} {
				plan := storetest.Even([]string{addr})
				plan.Tokens = int64(1) << (20 * i)
				mustReserve(t, []*redisclient.Store{a, b}[i%2], p, 0, lb.LeaseID(i+1), plan)
			}
			scope := storetest.Even(addrs).Scope
			want := []lb.Load{{Requests: 2, Tokens: 1<<20 + 1<<32 - 1}, {}, {Requests: 1, Tokens: 1}, {}}
			for _, s := range []*redisclient.Store{a, idle} {
				var got []lb.Load
				s.Loads(0, scope, []string{addrs[1], addrs[2], addrs[0], "10.9.9.9:1"}, func(l []lb.Load, err error) {
					if err != nil {
						t.Error(err)
					}
					got = l
				})
				p.flush(0)
				if !slices.Equal(got, want) {
					t.Errorf("loads %v, want %v", got, want)
				}
			}
			if idle.Owners() != 0 || !idle.Drained() {
				t.Error("a store that only looks up loads is an owner")
			}
			var none []lb.Load
			idle.Loads(0, "no such scope", addrs[:1], func(l []lb.Load, err error) { none = l })
			p.flush(0)
			if !slices.Equal(none, []lb.Load{{}}) {
				t.Errorf("loads of a scope that is not there: %v", none)
			}
		})
	}
}

// How many requests of each class wait is told with the loads, also to a store without requests.
func TestRoom(t *testing.T) {
	const waiting = 16 // classes, as many as there may be
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			store := func(owner uint64) *redisclient.Store {
				return redisclient.New(dial(t, server), redisclient.Options{
					Owner: owner, TTL: storetest.TTL, Timeout: time.Hour, KV: newMemory(),
				})
			}
			busy, idle, addrs := store(1), store(2), storetest.Addrs(2)
			plan := storetest.Even(addrs[:1])
			plan.Candidates[0].Cap = 1
			plan.Wait = lb.Wait{Max: time.Hour, Length: 2 * waiting}
			want := func(requests int64, waiting int) {
				t.Helper()
				idle.Room(0, plan.Scope, addrs, func(l []lb.Load, q lb.QueueStats, err error) {
					wrong := err != nil || l[0].Requests != requests || l[1].Requests != 0
					if wrong || q.Waiting != waiting || len(q.ByClass) != waiting {
						t.Errorf("%v, %+v, %v, want %d and then %d that wait", l, q, err, requests, waiting)
					}
				})
			}
			want(0, 0)
			for id := range lb.LeaseID(1 + waiting) {
				p := *plan
				p.Wait.Class = lb.Class{ID: uint16(id), Weight: 1}
				busy.Reserve(0, id, &p, func(lb.Grant, error) {})
				want(1, int(id))
			}
			if stats := idle.Queue(0, plan.Scope); stats.Waiting != 0 {
				t.Errorf("it has a queue of its own: %+v", stats)
			}
			for id := range lb.LeaseID(1 + waiting) {
				busy.Release(0, id)
			}
			want(0, 0)
		})
	}
}

// badLoads are the cases of TestLoadsFail.
var badLoads = map[string]error{
	"$3\r\nabc\r\n": redisclient.ErrGarbage, "$12\r\n123456789abc\r\n": redisclient.ErrGarbage,
	"*0\r\n": redisclient.ErrGarbage, ":1\r\n": redisclient.ErrGarbage,
	"-OOM no\r\n": nil,
}

// Whatever the reply is, done is called once.
func TestLoadsFail(t *testing.T) {
	for reply, want := range badLoads {
		var m manualTransport
		s := newManualStore(&m, newMemory())
		calls := 0
		s.Loads(0, "llm", []string{"10.0.0.1:80"}, func(l []lb.Load, err error) {
			calls++
			if err == nil || l != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("%q: %v, %v", reply, l, err)
			}
		})
		m.answer(0, 0, reply)
		if calls != 1 {
			t.Errorf("%q: called %d times", reply, calls)
		}
	}
	s := newManualStore(&manualTransport{}, newMemory())
	s.Loads(0, "llm", nil, func(_ []lb.Load, err error) {
		if err == nil {
			t.Error("no error for no addresses")
		}
	})
}
