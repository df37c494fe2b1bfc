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

// An owner with more leases than one command compares finds within one heartbeat which leases Redis has too many, and
// which are missing.
func TestHeartbeatInParts(t *testing.T) {
	const n, each = 11_000, 100 // many parts; the release of every hundredth lease is lost
	server := redisserver.StartT(t, redisserver.Options{})
	s, p := newBatchedStore(t, server, 1)
	w := dial(t, server)
	for id := range lb.LeaseID(n) {
		reserve(s, 0, id)
		if id%each == 0 {
			p.flush(0)
		}
	}
	now := time.Second
	s.Heartbeat(now)
	p.flush(now)
	own := redisclient.KeysOf("llm").Leases + "1"
	lost := 0
	for id := range lb.LeaseID(n) {
		if id%each == 0 { // whose release does not get through
			s.Release(now, id)
			lost++
		}
	}
	p.out, p.done, p.next = nil, nil, nil
	now += time.Minute
	s.Expire(now)
	if s.Ready(now) {
		t.Fatal("the breaker is closed")
	}
	size := func() int64 { return w.value("HLEN", own).Int }
	if got, want := size(), int64(n+2); got != want {
		t.Fatalf("%d entries before the heartbeats, want %d", got, want)
	}
	commands := 0
	for range 3 {
		now += time.Second
		s.Heartbeat(now)
		p.flush(now)
		commands += bytes.Count(bytes.Join(p.sent, nil), []byte("EVALSHA"))
	}
	if got, want := size(), int64(n+2-lost); got != want {
		t.Errorf("%d entries after three heartbeats, want %d", got, want)
	}
	if limit := (3 + 1) * (n/320 + 1); commands > limit { // each part of the first heartbeat has leases to release
		t.Errorf("%d commands for three heartbeats and %d leases, want %d at most", commands, lost, limit)
	}
	total := int64(0)
	for _, l := range w.loads("llm") {
		total += l.Requests
	}
	if total != int64(n-lost) {
		t.Errorf("%d in flight, want %d", total, n-lost)
	}
	mustDo(t, server, []any{"FLUSHALL"})
	s.Heartbeat(now + time.Second)
	p.flush(now + time.Second)
	if got, want := size(), int64(n+2-lost); got != want {
		t.Errorf("%d entries after the loss of all data and one heartbeat, want %d", got, want)
	}
}

// Leases that Redis has lost are asserted one command after the other, so that a request waits behind one at most.
// Leases that end before their turn are left out. After a failure, the next heartbeat asserts the rest.
func TestLeasesAreAssertedInTurn(t *testing.T) {
	const n = 3*50 + 25 // four commands
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	s.Release(0, 1000)
	for id := range lb.LeaseID(n) {
		reserve(s, 0, id)
		m.answer(0, len(m.done)-1, grantReply)
	}
	asserted := func() int { // by the command that was sent last
		return bytes.Count(m.cmds[len(m.cmds)-1], []byte(manualPlan.Candidates[1].Addr))
	}
	heartbeat := func(now time.Duration) {
		m = manualTransport{}
		s.Heartbeat(now)
		m.answer(now, 0, heartbeatReply)
		m.wantSent(t, "EVALSHA EVALSHA")
	}
	heartbeat(0)
	for i := range 3 {
		if got := asserted(); got != 50 {
			t.Fatalf("command %d has %d leases", i, got)
		}
		m.answer(0, i+1, ":50\r\n")
	}
	m.wantSent(t, "EVALSHA EVALSHA EVALSHA EVALSHA EVALSHA")
	if got := asserted(); got != 25 {
		t.Fatalf("the last command has %d leases", got)
	}
	m.answer(0, 4, ":25\r\n")
	m.wantSent(t, "EVALSHA EVALSHA EVALSHA EVALSHA EVALSHA")

	heartbeat(time.Second) // finds none of them
	for id := range lb.LeaseID(n - 1) {
		s.Release(time.Second, id)
	}
	last := len(m.cmds)
	m.answer(time.Second, 1, "-ERR no\r\n")
	if len(m.cmds) != last {
		t.Fatalf("after an error %d more commands were sent", len(m.cmds)-last)
	}
	heartbeat(2 * time.Second)
	if got := asserted(); got != 1 {
		t.Errorf("the command has %d leases, one is left", got)
	}
}

// After the server's clock was set back, owners have heartbeats in the future. Their leases are returned no later than
// those of others.
func TestClockSetBack(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			w := dial(t, redisserver.StartT(t, redisserver.Options{Version: version}))
			s := newManualStore(w, newMemory())
			dead := newStore(w, 2, manualTimeout)
			reserve(s, 0, 1).want(t, "granted 0")
			reserve(dead, 0, 1).want(t, "granted 1")
			pass := (&backend{conn: w}).Pass
			pass(-time.Hour)
			s.Heartbeat(time.Second)
			wantLoads(t, w, map[string]lb.Load{
				manualPlan.Candidates[0].Addr: {Requests: 1}, manualPlan.Candidates[1].Addr: {Requests: 1},
			})
			pass(storetest.TTL + time.Second)
			s.Heartbeat(2 * time.Second)
			wantLoads(t, w, map[string]lb.Load{manualPlan.Candidates[0].Addr: {Requests: 1}})
		})
	}
}

// Amendments during an outage reach Redis with the first heartbeat after it.
func TestAmendmentsAfterAnOutage(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	w := dial(t, server)
	s := newManualStore(w, newMemory())
	reserve(s, 0, 1).want(t, "granted 0")
	reserve(s, 0, 2).want(t, "granted 1")
	now := time.Second
	s.Heartbeat(now)
	w.fate = func([]byte) int { return notSent }
	s.Amend(now, 1, "10.9.9.9:80", 70)
	s.Amend(now, 2, "", 30)
	s.Amend(now, 2, "", 20)
	s.Release(now, 99) // unknown: only remembered
	for range 6 {      // the breaker opens
		now += time.Second
		s.Heartbeat(now)
		s.Expire(now + manualTimeout)
	}
	s.Amend(now, 2, "", 10)
	if s.Ready(now) || redisclient.Cause(s.HeartbeatErr()) != "timeout" {
		t.Fatalf("ready is %v, the last heartbeat %v", s.Ready(now), s.HeartbeatErr())
	}
	w.fate = nil
	now += time.Second
	s.Heartbeat(now)
	if !s.Ready(now) || s.HeartbeatErr() != nil {
		t.Fatalf("ready is %v, the last heartbeat %v", s.Ready(now), s.HeartbeatErr())
	}
	wantLoads(t, w, map[string]lb.Load{
		"10.9.9.9:80": {Requests: 1, Tokens: 70}, manualPlan.Candidates[1].Addr: {Requests: 1, Tokens: 10},
	})
	sent := w.sent
	s.Heartbeat(now + time.Second)
	if w.sent != sent+1 {
		t.Errorf("the next heartbeat sent %d commands", w.sent-sent)
	}
}

func wantLoads(t tb, w *syncTransport, want map[string]lb.Load) {
	t.Helper()
	got := nonZero(w.loads("llm"))
	for addr, l := range want {
		if got[addr] != l {
			t.Errorf("%s carries %+v, want %+v", addr, got[addr], l)
		}
	}
	if len(got) != len(want) {
		t.Errorf("in flight are %v, want %v", got, want)
	}
}

// An amendment or an assertion that arrives after a later one does not undo it.
func TestLateChanges(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	w := dial(t, server)
	delay := func(f func()) {
		w.fate = func([]byte) int { return runsLate }
		f()
		w.fate = nil
	}
	t.Run("amendment", func(t *testing.T) {
		s := newManualStore(w, newMemory())
		reserve(s, 0, 1).want(t, "granted 0")
		delay(func() { s.Amend(0, 1, manualPlan.Candidates[1].Addr, 70) })
		s.Amend(0, 1, manualPlan.Candidates[0].Addr, 5)
		w.deliver()
		wantLoads(t, w, map[string]lb.Load{manualPlan.Candidates[0].Addr: {Requests: 1, Tokens: 5}})
		s.Release(0, 1)
	})
	t.Run("assertion", func(t *testing.T) {
		s := newManualStore(w, newMemory())
		delay(func() { s.Adopt(0, 1, "llm", manualPlan.Candidates[0].Addr, 9) })
		s.Amend(0, 1, manualPlan.Candidates[1].Addr, 8) // is not known there yet
		w.deliver()
		s.Heartbeat(time.Second)
		wantLoads(t, w, map[string]lb.Load{manualPlan.Candidates[1].Addr: {Requests: 1, Tokens: 8}})
		s.Release(time.Second, 1)
	})
	t.Run("amendment without rows", func(t *testing.T) {
		s := newManualStore(w, newMemory())
		reserve(s, 0, 1).want(t, "granted 0")
		reserve(s, 0, 2).want(t, "granted 1")
		s.Heartbeat(time.Second)
		w.value("DEL", redisclient.KeysOf("llm").Rows)
		s.Amend(time.Second, 1, "10.9.9.9:80", 8)
		s.Heartbeat(2 * time.Second)
		wantLoads(t, w, map[string]lb.Load{
			"10.9.9.9:80": {Requests: 1, Tokens: 8}, manualPlan.Candidates[1].Addr: {Requests: 1},
		})
	})
}

// A heartbeat compares what it found with what was certain when it was sent: a lease that was granted since is not
// missing.
func TestHeartbeatOvertaken(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	s.Release(0, 1000)
	m.answer(0, 0, ":1\r\n")
	s.Heartbeat(0)
	r := reserve(s, 0, 1)
	m.answer(0, 2, grantReply)
	r.want(t, "granted 1")
	m.answer(0, 1, heartbeatReply) // found no lease
	m.wantSent(t, "EVALSHA EVALSHA EVALSHA")
	s.Heartbeat(time.Second)
	m.answer(time.Second, 3, heartbeatReply) // finds none again: now it is missing
	m.wantSent(t, "EVALSHA EVALSHA EVALSHA EVALSHA EVALSHA")
	if !bytes.Contains(m.cmds[4], []byte(manualPlan.Candidates[1].Addr)) {
		t.Errorf("what was sent does not assert the lease: %q", m.cmds[4])
	}
}

func TestHeartbeatReplies(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", "*0\r\n", "*4\r\n:0\r\n:1\r\n$0\r\n\r\n$0\r\n\r\n",
		"*8\r\n+x\r\n:1\r\n$8\r\nabcdefgh\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n",
		"*8\r\n:0\r\n+x\r\n$8\r\nabcdefgh\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n",
		"*8\r\n:0\r\n:1\r\n$8\r\nabcdefgh\r\n$21\r\n123456789012345678901\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n",
		"*8\r\n:0\r\n:1\r\n$8\r\nabcdefgh\r\n$1\r\n0\r\n$7\r\nabcdefg\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n",
		"*8\r\n:0\r\n:1\r\n$8\r\nabcdefgh\r\n$1\r\n0\r\n$0\r\n\r\n$1\r\na\r\n$0\r\n\r\n$0\r\n\r\n",
		"*8\r\n:0\r\n:1\r\n$8\r\nabcdefgh\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$1\r\na\r\n$0\r\n\r\n",
	} {
		var m manualTransport
		s := newOpenedStore(t, &m, &m, newMemory())
		s.Heartbeat(0)
		m.answer(0, 0, reply)
		if redisclient.Cause(s.HeartbeatErr()) != "garbage" || s.Owners() != 0 {
			t.Errorf("%q: %v, %d owners", reply, s.HeartbeatErr(), s.Owners())
		}
	}
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	s.Heartbeat(0)
	m.answer(0, 0, "*8\r\n:0\r\n:12\r\n$8\r\nabcdefgh\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n")
	if s.HeartbeatErr() != nil || s.Owners() != 12 {
		t.Errorf("%v, %d owners", s.HeartbeatErr(), s.Owners())
	}
}

// Redis that is out of memory refuses reservations and counts nothing for them. Releases, amendments and heartbeats
// still work.
func TestOutOfMemory(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			w := dial(t, server)
			s := newManualStore(w, newMemory())
			for id := range lb.LeaseID(3) {
				reserve(s, 0, id)
			}
			before := nonZero(w.loads("llm"))
			mustDo(t, server, []any{"CONFIG", "SET", "maxmemory", "1"})
			reserve(s, 0, 9).want(t, "oom")
			wantLoads(t, w, before)
			s.Release(0, 0)
			s.Amend(0, 1, manualPlan.Candidates[0].Addr, 5)
			s.Amend(0, 2, manualPlan.Candidates[0].Addr, 6)
			wantLoads(t, w, map[string]lb.Load{manualPlan.Candidates[0].Addr: {Requests: 2, Tokens: 11}})
			dead := newStore(w, 2, manualTimeout)
			dead.Adopt(0, 1, "llm", manualPlan.Candidates[1].Addr, 4)
			mustDo(t, server, []any{"CONFIG", "SET", "maxmemory", "0"})
			(&backend{conn: w}).Pass(time.Minute)
			mustDo(t, server, []any{"CONFIG", "SET", "maxmemory", "1"})
			for _, now := range []time.Duration{time.Second, 2 * time.Second} {
				s.Heartbeat(now)
				if s.HeartbeatErr() != nil {
					t.Fatalf("a heartbeat: %v", s.HeartbeatErr())
				}
			}
			wantLoads(t, w, map[string]lb.Load{manualPlan.Candidates[0].Addr: {Requests: 2, Tokens: 11}})
			s.Release(0, 1)
			s.Release(0, 2)
			wantLoads(t, w, nil)
			mustDo(t, server, []any{"CONFIG", "SET", "maxmemory", "0"})
			reserve(s, 0, 10)
			s.Release(0, 10)
			wantLoads(t, w, nil)
		})
	}
}
