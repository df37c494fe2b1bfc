package redisclient_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

func TestDeadline(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	if next := s.Expire(0); next != 0 {
		t.Fatalf("without a call the deadline is %v", next)
	}
	first, second := reserve(s, 0, 1), reserve(s, 5*time.Millisecond, 2)
	if next := s.Expire(manualTimeout - 1); next != manualTimeout {
		t.Fatalf("the deadline is %v", next)
	}
	first.want(t, "waits")
	if next := s.Expire(manualTimeout); next != manualTimeout+5*time.Millisecond {
		t.Fatalf("the next deadline is %v", next)
	}
	first.want(t, "timeout")
	second.want(t, "waits")
	m.wantSent(t, "EVALSHA EVALSHA EVALSHA") // the last one takes back what may still be reserved
	m.answer(manualTimeout, 0, grantReply)
	m.answer(manualTimeout, 1, grantReply)
	first.want(t, "timeout")
	second.want(t, "granted 1")
	s.Release(manualTimeout, 1)
	m.wantSent(t, "EVALSHA EVALSHA EVALSHA")
}

// A reservation that is sent again, because Redis had lost the candidates, keeps its deadline. The lease that is held
// is asserted before.
func TestDeadlineOfTheSecondTry(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	r := reserve(s, 0, 1)
	m.answer(15*time.Millisecond, 0, "*1\r\n:-3\r\n")
	m.wantSent(t, "EVALSHA EVALSHA EVALSHA EVALSHA")
	if next := s.Expire(15 * time.Millisecond); next != manualTimeout {
		t.Errorf("the deadline is %v", next)
	}
	r.want(t, "waits")
	s.Expire(manualTimeout)
	r.want(t, "timeout")
}

// When the breaker opens, the calls without an answer fail.
func TestBreakerFailsPendingCalls(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	for id := range lb.LeaseID(5) {
		reserve(s, 0, id)
	}
	later := reserve(s, manualTimeout-1, 5)
	s.Heartbeat(manualTimeout - 1)
	if next := s.Expire(manualTimeout); next != 2*manualTimeout-1 {
		t.Errorf("the deadline of the heartbeat is %v", next)
	}
	later.want(t, "timeout")
	m.answer(manualTimeout, 6, heartbeatReply) // which still may close the breaker
	if !s.Ready(manualTimeout) {
		t.Error("the breaker is open")
	}
}

// An answer that arrives after the deadline, but before Expire was called, is used.
func TestAnswerBehindTheDeadline(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	r := reserve(s, 0, 1)
	m.answer(time.Second, 0, grantReply)
	s.Expire(time.Second)
	r.want(t, "granted 1")
}

func TestBreakerKeepsRequestsAway(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	for id := range lb.LeaseID(5) {
		if !s.Ready(0) {
			t.Fatalf("open after %d failures", id)
		}
		reserve(s, 0, id)
	}
	s.Expire(manualTimeout)
	if s.Ready(manualTimeout) {
		t.Fatal("five time-outs in a row do not open the breaker")
	}
	m.sent = nil
	reserve(s, manualTimeout, 9).want(t, "breaker_open")
	m.wantSent(t, "")
	if err := s.Heartbeat(time.Second); err != nil {
		t.Fatal(err)
	}
	m.wantSent(t, "EVALSHA")
	probe := len(m.done) - 1
	m.answer(time.Second, 0, grantReply) // an answer to one of the five
	if s.Ready(time.Second) {
		t.Fatal("a late answer closed the breaker")
	}
	m.answer(time.Second, probe, heartbeatReply)
	if !s.Ready(time.Second) || s.HeartbeatErr() != nil {
		t.Fatalf("the heartbeat succeeded, and the breaker is open: %v", s.HeartbeatErr())
	}
}

const heartbeatReply = "*8\r\n:0\r\n:1\r\n$8\r\nabcdefgh\r\n$1\r\n0\r\n$0\r\n\r\n$0\r\n\r\n" +
	"$0\r\n\r\n$0\r\n\r\n"

// A store without leases probes as well.
func TestBreakerOfAnIdleStore(t *testing.T) {
	var m manualTransport
	s := newManualStore(&m, newMemory())
	for id := range lb.LeaseID(5) {
		reserve(s, 0, id)
	}
	s.Expire(manualTimeout)
	if s.Ready(0) {
		t.Fatal("the breaker is closed")
	}
	now := 2 * time.Minute
	s.Heartbeat(now) // forgets the scope
	s.Expire(now + manualTimeout)
	for _, reply := range []string{"-NOSCRIPT no\r\n", "-LOADING no\r\n", "+PONG\r\n"} {
		m.sent = nil
		now += time.Second
		s.Heartbeat(now)
		m.wantSent(t, "PING")
		m.answer(now, len(m.done)-1, reply)
	}
	if !s.Ready(now) {
		t.Fatal("the breaker is open")
	}
}

// sequence is what follows when a script was not known: those whose order matters.
const sequence = " SCRIPT SCRIPT SCRIPT SCRIPT"

// scriptLosses are the cases of TestNoScript.
var scriptLosses = []struct {
	name    string
	replies []string // to each command in turn
	want    string
	sent    string
}{
	{"loaded", []string{noScript, loadedReply, grantReply}, "granted 1", "EVALSHA SCRIPT EVALSHA" + sequence},
	{
		"lost again",
		[]string{
			noScript, loadedReply, noScript,
			loadedReply, loadedReply, loadedReply, loadedReply, loadedReply, grantReply,
		},
		"granted 1", "EVALSHA SCRIPT EVALSHA" + sequence + " SCRIPT EVALSHA",
	},
	{
		"not to be loaded",
		[]string{noScript, noPerm, noScript, noPerm, noPerm, noPerm, noPerm, noPerm, noScript},
		"denied", "EVALSHA SCRIPT EVALSHA" + sequence + " SCRIPT EVALSHA",
	},
	{
		"lost at each try",
		[]string{
			noScript, loadedReply, noScript,
			loadedReply, loadedReply, loadedReply, loadedReply, loadedReply, noScript,
		},
		"script", "EVALSHA SCRIPT EVALSHA" + sequence + " SCRIPT EVALSHA",
	},
}

func TestNoScript(t *testing.T) {
	for _, c := range scriptLosses {
		t.Run(c.name, func(t *testing.T) {
			var m manualTransport
			s := newOpenedStore(t, &m, &m, newMemory())
			r := reserve(s, 0, 1)
			for i, reply := range c.replies {
				m.answer(0, i, reply)
			}
			r.want(t, c.want)
			m.wantSent(t, c.sent)
		})
	}
}

// While one worker of a gateway loads a script, the others first try again without loading it, and load it only if that
// fails. The gateway's shared memory records which worker was first.
func TestNoScriptOfTwoWorkers(t *testing.T) {
	kv := newMemory()
	var m, n, o manualTransport
	a, b := newOpenedStore(t, &m, &m, kv), newOpenedStore(t, &n, &n, kv)
	reserve(a, 0, 1)
	r := reserve(b, 0, 1)
	m.answer(0, 0, noScript)
	m.wantSent(t, "EVALSHA SCRIPT EVALSHA"+sequence)
	n.answer(0, 0, noScript)
	n.wantSent(t, "EVALSHA EVALSHA")
	n.answer(0, 1, noScript)
	n.wantSent(t, "EVALSHA EVALSHA SCRIPT EVALSHA"+sequence)
	n.answer(0, 3, grantReply)
	r.want(t, "granted 1")

	reserve(newOpenedStore(t, &o, &o, kv), time.Second, 1)
	o.answer(time.Second, 0, noScript)
	o.wantSent(t, "EVALSHA SCRIPT EVALSHA"+sequence) // what was loaded a second ago has been lost since
}

// A thousand calls that find the script gone make a gateway load it once, with the four whose order matters, and all of
// them succeed.
func TestNoScriptStorm(t *testing.T) {
	const workers, each = 4, 250
	server := redisserver.StartT(t, redisserver.Options{})
	p, kv := newBatchTransport(t, server), newMemory()
	var stores []*redisclient.Store
	for w := range uint64(workers) {
		stores = append(stores, redisclient.New(p, redisclient.Options{
			Owner: w + 1, TTL: storetest.TTL, Timeout: time.Second, KV: kv,
		}))
		reserve(stores[w], 0, 1)
		p.flush(0)
	}
	for _, command := range [][]any{{"SCRIPT", "FLUSH"}, {"CONFIG", "RESETSTAT"}} {
		if _, err := server.Do(command...); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Second
	var results []*result
	for id := range lb.LeaseID(each) {
		for _, s := range stores {
			results = append(results, reserve(s, now, id+2))
		}
	}
	p.flush(now)
	for _, r := range results {
		if r.calls != 1 || r.err != nil {
			t.Fatalf("a reservation: %s", r)
		}
	}
	stats, err := server.CommandStats()
	if err != nil {
		t.Fatal(err)
	}
	if n := stats["script|load"].Calls; n != 1+4 {
		t.Errorf("%d scripts were loaded, want 5", n)
	}
	total := int64(0)
	for _, l := range dial(t, server).loads("llm") {
		total += l.Requests
	}
	if want := int64(workers * (each + 1)); total != want {
		t.Errorf("%d requests in flight, want %d", total, want)
	}
}

const (
	movedReply = "-MOVED 5 10.0.0.9:6379\r\n"
	askReply   = "-ASK 5 10.0.0.9:6379\r\n"
	againReply = "-TRYAGAIN later\r\n"
)

// redirections are the cases of TestRedirections.
var redirections = []struct {
	name    string
	plain   bool // the transport knows one server only
	replies []string
	want    string
	sent    string
}{
	{
		name: "moved", replies: []string{movedReply, grantReply},
		want: "granted 1", sent: "EVALSHA 10.0.0.9:6379/EVALSHA",
	},
	{name: "ask", replies: []string{askReply, grantReply}, want: "granted 1", sent: "EVALSHA 10.0.0.9:6379?/EVALSHA"},
	{
		name: "moved twice", replies: []string{movedReply, movedReply},
		want: "moved", sent: "EVALSHA 10.0.0.9:6379/EVALSHA",
	},
	{
		name:    "moved to where the script is not known",
		replies: []string{movedReply, noScript, loadedReply, grantReply},
		want:    "granted 1",
		sent: "EVALSHA 10.0.0.9:6379/EVALSHA 10.0.0.9:6379/SCRIPT 10.0.0.9:6379/EVALSHA" +
			strings.ReplaceAll(sequence, "SCRIPT", "10.0.0.9:6379/SCRIPT"),
	},
	{
		name:    "ask, to where the script is not known",
		replies: []string{askReply, noScript, loadedReply, grantReply},
		want:    "granted 1",
		sent: "EVALSHA 10.0.0.9:6379?/EVALSHA 10.0.0.9:6379/SCRIPT 10.0.0.9:6379?/EVALSHA" +
			strings.ReplaceAll(sequence, "SCRIPT", "10.0.0.9:6379/SCRIPT"),
	},
	{name: "half moved", replies: []string{againReply, grantReply}, want: "granted 1", sent: "EVALSHA EVALSHA"},
	{name: "half moved for long", replies: []string{againReply, againReply}, want: "moved", sent: "EVALSHA EVALSHA"},
	{
		name: "moved to IPv6", replies: []string{"-MOVED 5 2001:db8::1:6379\r\n", grantReply}, want: "granted 1",
		sent: "EVALSHA [2001:db8::1]:6379/EVALSHA",
	},
	{name: "nowhere", replies: []string{"-MOVED 5\r\n"}, want: "moved", sent: "EVALSHA"},
	{name: "to no port", replies: []string{"-MOVED 5 10.0.0.9\r\n"}, want: "moved", sent: "EVALSHA"},
	{name: "to half a port", replies: []string{"-MOVED 5 10.0.0.9:6379x\r\n"}, want: "moved", sent: "EVALSHA"},
	{name: "to an empty port", replies: []string{"-MOVED 5 10.0.0.9:\r\n"}, want: "moved", sent: "EVALSHA"},
	{name: "to no host", replies: []string{"-MOVED 5 :6379\r\n"}, want: "moved", sent: "EVALSHA"},
	{name: "to a name", replies: []string{"-MOVED 5 node-3.redis:6379\r\n"}, want: "moved", sent: "EVALSHA"},
	{name: "ask, to a name", replies: []string{"-ASK 5 node-3.redis:6379\r\n"}, want: "moved", sent: "EVALSHA"},
	{name: "one server", plain: true, replies: []string{movedReply}, want: "moved", sent: "EVALSHA"},
}

func TestRedirections(t *testing.T) {
	for _, c := range redirections {
		t.Run(c.name, func(t *testing.T) {
			r := &manualRedirector{}
			var tr redisclient.Transport = r
			if c.plain {
				tr = &r.manualTransport
			}
			s := newOpenedStore(t, tr, &r.manualTransport, newMemory())
			res := reserve(s, 0, 1)
			for i, reply := range c.replies {
				r.answer(0, i, reply)
			}
			res.want(t, c.want)
			r.wantSent(t, c.sent)
		})
	}
}

// An answer that no script can return is garbage, and what may have been reserved is released.
func TestUnreadableAnswers(t *testing.T) {
	for _, reply := range []string{
		"+OK\r\n", ":1\r\n", "$1\r\na\r\n", "*0\r\n", "*-1\r\n", "*1\r\n:0\r\n", "*1\r\n+-1\r\n", "*1\r\n:-4\r\n",
		"*2\r\n:-1\r\n:-1\r\n", strings.Replace(grantReply, "\x01", "\x02", 1), "$14\r\n\x01\r\n",
		promptReply(0, 1, 1, 1, 1), "", ":1", grantReply + grantReply, "<html>",
	} {
		var m manualTransport
		s := newOpenedStore(t, &m, &m, newMemory())
		r := reserve(s, 0, 1)
		m.answer(0, 0, reply)
		if r.calls != 1 || !errors.Is(r.err, redisclient.ErrGarbage) {
			t.Errorf("%q: %s", reply, r)
		}
		if len(m.sent) != 2 {
			t.Errorf("%q: nothing is released, sent was %s", reply, strings.Join(m.sent, " "))
		}
	}
}
