package redisclient_test

import (
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// silentRoom is one endpoint, which a gateway of two workers holds, and requests of these and of another gateway.
type silentRoom struct {
	t       *testing.T
	b       *clocked
	keys    redisclient.Keys
	workers [2]*redisclient.Store // of the gateway that holds the endpoint
	other   *redisclient.Store    // of another gateway
	far     *syncTransport        // of that
	plan    *lb.Plan
	id      lb.LeaseID
}

func newSilentRoom(t *testing.T, open func(t *testing.T) storetest.Backend) *silentRoom {
	r := &silentRoom{t: t, b: open(t).(*clocked), keys: redisclient.KeysOf("llm")}
	r.plan = storetest.Even(storetest.Addrs(1))
	r.plan.Candidates[0].Cap = 1
	r.plan.Wait = lb.Wait{Max: time.Hour, Length: 1000, Class: lb.Class{ID: 1, Weight: 1}}
	for i, owner := range []uint64{1<<50 + 2, 1<<50 + 3, 1<<51 + 2} {
		conn := r.b.dial()
		s := newStore(conn, owner, time.Second)
		if i < 2 {
			r.workers[i] = s
		} else {
			r.other, r.far = s, conn
		}
	}
	r.workers[0].OnGrant = func(owner uint64, news []byte) {
		if owner != 1<<50+3 {
			t.Errorf("a grant to %x, of another gateway, is passed on", owner)
		}
		r.workers[1].Hear(r.now(), news)
	}
	return r
}

func (r *silentRoom) now() time.Duration { return time.Hour + r.b.passed }

func (r *silentRoom) reserve(s *redisclient.Store) *result {
	r.id++
	out := &result{}
	s.Reserve(r.now(), r.id, r.plan, out.set)
	return out
}

// silence lets time pass in which only the given stores poll.
func (r *silentRoom) silence(of ...*redisclient.Store) {
	for range lb.Silence/lb.PollPeriod + 3 {
		r.b.Pass(lb.PollPeriod)
		for _, s := range of {
			s.Poll(r.now())
		}
	}
}

// What a silent owner may know of is not given to others: what a worker of its own gateway has told it, or a
// reservation that was sent again; and of an owner of a version that shows no life nothing is.
func TestWhatASilentOwnerMayKnow(t *testing.T) {
	open := openClocked(t, redisserver.StartT(t, redisserver.Options{}), false, nil)
	for name, c := range map[string]struct {
		waits func(r *silentRoom) *redisclient.Store // whose request waits first
		learn func(r *silentRoom)
		knows bool
	}{
		"told by a worker of its gateway": {
			func(r *silentRoom) *redisclient.Store { return r.workers[1] }, func(*silentRoom) {}, true,
		},
		"told by nobody": {func(r *silentRoom) *redisclient.Store { return r.other }, func(*silentRoom) {}, false},
		"a poll": {
			func(r *silentRoom) *redisclient.Store { return r.other },
			func(r *silentRoom) {
				r.b.Pass(lb.PollPeriod)
				r.other.Poll(r.now())
			}, true,
		},
		"a poll whose answer is lost": {
			func(r *silentRoom) *redisclient.Store { return r.other },
			func(r *silentRoom) {
				r.b.Pass(lb.PollPeriod)
				r.workers[0].Poll(r.now()) // Redis has the script then
				r.far.fate = func([]byte) int { return replyLost }
				r.other.Poll(r.now())
			}, true,
		},
		"a reservation that is sent again": {
			func(r *silentRoom) *redisclient.Store { return r.other },
			func(r *silentRoom) { _ = r.other.Heartbeat(r.now()) }, true,
		},
		"an older version": {
			func(r *silentRoom) *redisclient.Store {
				r.b.Pass(time.Second)
				return r.other
			}, nil, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newSilentRoom(t, open)
			r.reserve(r.workers[0]).want(t, "granted 0")
			r.reserve(c.waits(r)).want(t, "waits")
			next := r.reserve(r.workers[0])
			if c.learn == nil {
				r.b.conn.value("ZREM", r.keys.Lives, "8000000000002")
			}
			r.workers[0].Release(r.now(), 1)
			if c.learn != nil {
				c.learn(r)
			}
			r.silence(r.workers[0])
			want := "granted 0"
			if c.knows {
				want = "waits"
			}
			next.want(t, want)
			wantInFlight(t, r.b.conn, 1)
		})
	}
}

// However long an owner is silent that sends heartbeats, it has no turn, and keeps its place.
func TestSilentForLong(t *testing.T) {
	r := newSilentRoom(t, openClocked(t, redisserver.StartT(t, redisserver.Options{}), false, nil))
	r.reserve(r.other).want(t, "granted 0")
	r.reserve(r.workers[0]).want(t, "waits")
	next := r.reserve(r.other)
	for range 15 {
		r.b.Pass(time.Second)
		r.other.Poll(r.now())
		for _, s := range []*redisclient.Store{r.workers[0], r.workers[1], r.other} {
			_ = s.Heartbeat(r.now())
		}
	}
	next.want(t, "waits")
	r.other.Release(r.now(), 1)
	next.want(t, "granted 0")
	wantInFlight(t, r.b.conn, 1)
}

// A gateway is gone that was granted a hundred endpoints, and has thousands of requests wait. Each command that gives
// these to others is bounded, and all are given.
func TestManySilentGrants(t *testing.T) {
	const endpoints, waiting = 100, 2000
	for name, plan := range map[string]*lb.Plan{
		"caps":    storetest.Even(storetest.Addrs(endpoints)),
		"budgets": storetest.Budgeted(storetest.Addrs(endpoints), budget.Limits{Weight: 1, Tokens: 1e9}, 10),
	} {
		t.Run(name, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{})
			open := openClocked(t, server, false, nil)
			b, m := open(t).(*clocked), meterOf(t, server)
			for i := range plan.Candidates {
				plan.Candidates[i].Cap = 1
			}
			plan.Wait = lb.Wait{Max: time.Hour, Length: 3 * waiting, Class: lb.Class{ID: 1, Weight: 1}}
			alive, dead := m.store(1<<50+2), m.store(1<<51+2)
			granted := 0
			reserve := func(s *redisclient.Store, id lb.LeaseID) {
				s.Reserve(time.Hour, id, plan, func(_ lb.Grant, err error) {
					if granted++; err != nil {
						t.Error(err)
					}
				})
			}
			for id := range lb.LeaseID(endpoints) {
				reserve(alive, id)
			}
			for id := range lb.LeaseID(waiting) {
				reserve(dead, 10_000+id)
			}
			for id := range lb.LeaseID(endpoints) {
				reserve(alive, 20_000+id)
			}
			for id := range lb.LeaseID(endpoints) {
				alive.Release(time.Hour, id)
			}
			if granted != endpoints {
				t.Fatalf("%d were granted to who knows of it, want %d", granted, endpoints)
			}
			m.check(t)
			for range 40 {
				b.Pass(lb.PollPeriod)
				alive.Poll(time.Hour + b.passed)
			}
			m.check(t)
			if granted != 2*endpoints {
				t.Errorf("%d were granted, want %d", granted, 2*endpoints)
			}
			wantInFlight(t, b.conn, endpoints)
		})
	}
}
