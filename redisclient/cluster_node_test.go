package redisclient_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/lb"
)

// moves are the cases of TestMovedScope.
var moves = []struct {
	name    string
	replies []string
	want    string
	sent    string
}{
	{"ask", []string{"-ASK 5 10.0.0.8:6379\r\n", grantReply}, "granted 1", "EVALSHA 10.0.0.8:6379?/EVALSHA"},
	{"moved", []string{"-MOVED 5 10.0.0.9:6379\r\n", grantReply}, "granted 1", "EVALSHA 10.0.0.9:6379/EVALSHA"},
	{"at the new node", []string{grantReply}, "granted 1", "10.0.0.9:6379/EVALSHA"},
	{
		"moved again",
		[]string{"-MOVED 5 10.0.0.7:6379\r\n", grantReply},
		"granted 1",
		"10.0.0.9:6379/EVALSHA 10.0.0.7:6379/EVALSHA",
	},
	{"the node fails", []string{"-CLUSTERDOWN no\r\n"}, "cluster_down", "10.0.0.7:6379/EVALSHA"},
	{"at the configured server", []string{grantReply}, "granted 1", "EVALSHA"},
}

// The node of a Redis Cluster to which a scope was moved receives all further commands, until one fails.
func TestMovedScope(t *testing.T) {
	r := &manualRedirector{}
	s := newOpenedStore(t, r, &r.manualTransport, newMemory())
	for id, c := range moves {
		r.manualTransport = manualTransport{}
		res := reserve(s, 0, lb.LeaseID(id+1))
		for i, reply := range c.replies {
			r.answer(0, i, reply)
		}
		if got := res.String() + ": " + strings.Join(r.sent, " "); got != c.want+": "+c.sent {
			t.Errorf("%s: %s, want %s: %s", c.name, got, c.want, c.sent)
		}
	}
}

// The time for which a worker was held up does not count against Redis.
func TestPostpone(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	r := reserve(s, 0, 1)
	s.Postpone(30 * time.Millisecond)
	if next := s.Expire(manualTimeout); next != manualTimeout+30*time.Millisecond {
		t.Errorf("the deadline is %v", next)
	}
	m.answer(manualTimeout+time.Millisecond, 0, grantReply)
	r.want(t, "granted 1")
}

// Each deadline moves only once, however often a worker is held up.
func TestPostponeOnce(t *testing.T) {
	var m manualTransport
	s := newOpenedStore(t, &m, &m, newMemory())
	r := reserve(s, 0, 1)
	for range 10 {
		s.Postpone(5 * time.Millisecond)
	}
	s.Expire(manualTimeout + 5*time.Millisecond - 1)
	r.want(t, "waits")
	s.Expire(manualTimeout + 5*time.Millisecond)
	r.want(t, "timeout")
}
