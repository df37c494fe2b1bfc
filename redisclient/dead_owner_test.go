package redisclient_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// leaseCount returns how many leases an owner has in Redis.
func (w *syncTransport) leaseCount(owner string) int { return len(w.leases("llm")[owner]) }

// firstOnly lets only the first n commands through, as if their sender died then.
func firstOnly(n int) func([]byte) int {
	return func([]byte) int {
		if n--; n < 0 {
			return notSent
		}
		return arrives
	}
}

// A gateway that was considered dead comes back while its leases are being returned, and late reservations have created
// some of them again, on other endpoints. The totals are the sum of the leases after every command, and in the end what
// the gateway holds.
func TestBackWhileLeasesAreReturned(t *testing.T) {
	const n = 1000
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			w := dial(t, server)
			s := newManualStore(w, newMemory())
			reserve(s, 0, 1).want(t, "granted 0")
			back, p := newBatchedStore(t, server, 2)
			reserveMany(t, back, p, n)
			back.Heartbeat(0)
			p.flush(0)
			commands := p.all
			(&backend{conn: w}).Pass(storetest.TTL + time.Second)
			w.fate = firstOnly(2)
			s.Heartbeat(time.Second)
			w.fate = nil
			left := w.leaseCount("2")
			if left < n-2*160 || left > n-2*150 {
				t.Fatalf("two commands left %d leases of %d, want 160 or a few less returned by each", left, n)
			}
			wantInFlight(t, w, int64(left)+1)
			again := 0
			for i, cmd := range commands {
				if i%3 == 0 && bytes.Contains(cmd, []byte(":view:")) && !bytes.Contains(cmd, []byte(":owners")) {
					w.roundTrip(cmd)
					again++
				}
			}
			if got := w.leaseCount("2"); again < n/4 || got <= left {
				t.Fatalf("%d reservations came late, and %d leases are there", again, got)
			}
			for _, now := range []time.Duration{2 * time.Second, 3 * time.Second} {
				back.Heartbeat(now)
				p.flush(now)
			}
			wantInFlight(t, w, n+1)
			if got := w.leaseCount("2"); got != n {
				t.Errorf("%d leases are there, %d held", got, n)
			}
			for id := range lb.LeaseID(n) {
				back.Release(4*time.Second, id)
			}
			p.flush(4 * time.Second)
			wantInFlight(t, w, 1)
		})
	}
}

// One owner at a time returns the leases of others. If it dies too, another continues where it was.
func TestLeasesAreReturnedByOne(t *testing.T) {
	const n = 1000
	server := redisserver.StartT(t, redisserver.Options{})
	w := dial(t, server)
	dead, p := newBatchedStore(t, server, 3)
	reserveMany(t, dead, p, n)
	store := func(owner uint64) *redisclient.Store {
		o := redisclient.Options{Owner: owner, TTL: storetest.TTL, Timeout: manualTimeout, KV: newMemory()}
		return redisclient.New(w, o)
	}
	(&backend{conn: w}).Pass(storetest.TTL + time.Second)
	one, other := store(1), store(2)
	reserve(one, 0, 1)
	reserve(other, 0, 1)
	w.fate = firstOnly(1)
	one.Heartbeat(0)
	w.fate = nil
	w.value("PEXPIRE", redisclient.KeysOf("llm").Turn, "3600000") // does not end, however slow the machine is
	left, sent := w.leaseCount("3"), w.sent
	if left == n || left < n-160 {
		t.Fatalf("one command left %d leases of %d", left, n)
	}
	other.Heartbeat(0)
	if sent = w.sent - sent; sent != 2 { // the second command reports its own lease
		t.Errorf("beside the one that returns leases, another took %d commands", sent)
	}
	if got := w.leaseCount("3"); got != left {
		t.Errorf("two owners left %d leases, one %d", got, left)
	}
	wantInFlight(t, w, int64(left)+2)
	(&backend{conn: w}).Pass(time.Second) // the turn is over
	other.Heartbeat(time.Second)
	wantInFlight(t, w, 2)
	if owners := w.value("ZCARD", redisclient.KeysOf("llm").Owners).Int; owners != 2 {
		t.Errorf("%d owners, want the two that are alive", owners)
	}
	if w.value("EXISTS", redisclient.KeysOf("llm").Leases+"3").Int != 0 {
		t.Error("the dead owner's leases are still there")
	}
}

// A gateway that was considered dead comes back while its places in the queue are being given up: it takes all of them
// again.
func TestBackWhilePlacesAreGivenUp(t *testing.T) {
	const n = 400
	server := redisserver.StartT(t, redisserver.Options{})
	w := dial(t, server)
	plan := storetest.Even(storetest.Addrs(1))
	plan.Candidates[0].Cap = 1
	plan.Wait = lb.Wait{Max: time.Hour, Length: 2 * n, Class: lb.Class{ID: 1, Weight: 1}}
	store := func(conn *syncTransport, owner uint64) *redisclient.Store {
		return redisclient.New(conn, redisclient.Options{
			Owner: owner, TTL: storetest.TTL, Timeout: time.Hour, KV: newMemory(),
		})
	}
	back, s, counter := store(dial(t, server), 2), store(w, 1), store(dial(t, server), 3)
	granted := 0
	for id := range lb.LeaseID(n + 1) {
		back.Reserve(0, id, plan, func(_ lb.Grant, err error) {
			if granted++; err != nil {
				t.Error(err)
			}
		})
	}
	for _, other := range []*redisclient.Store{s, counter} {
		reserve(other, 0, 1)
		other.Release(0, 1)
	}
	waiting := func() int {
		counter.Heartbeat(time.Second)
		return counter.Queue(time.Second, "llm").Waiting
	}
	back.Heartbeat(0)
	if got := waiting(); got != n || granted != 1 {
		t.Fatalf("%d wait and %d were granted, want %d and 1", got, granted, n)
	}
	(&backend{conn: w}).Pass(storetest.TTL + time.Second)
	w.fate = firstOnly(1)
	s.Heartbeat(time.Second)
	w.fate = nil
	for i := range 3 {
		back.Heartbeat(time.Duration(i) * time.Second)
	}
	back.PollSoon()
	back.Poll(3 * time.Second)
	if got := waiting(); got+granted != n+1 || granted > 2 { // its lease was returned, too, and granted to one of them
		t.Errorf("%d wait, and %d were granted, of %d", got, granted, n+1)
	}
	for id := range lb.LeaseID(n + 1) {
		back.Release(0, id)
	}
	if got := waiting(); got != 0 {
		t.Errorf("%d wait in the end", got)
	}
}
