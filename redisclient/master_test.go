package redisclient_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

const readOnly = "-READONLY You can't write against a read only replica.\r\n"

func roleOf(master string, port int) string {
	return fmt.Sprintf("*5\r\n$5\r\nslave\r\n$%d\r\n%s\r\n:%d\r\n$9\r\nconnected\r\n:14\r\n", len(master), master, port)
}

const masterRole = "*3\r\n$6\r\nmaster\r\n:14\r\n*0\r\n"

// A replica that refuses a command is asked for its master, as often as the name leads to the master itself, and all
// that follows is sent there until it fails.
func TestReplicaNamesItsMaster(t *testing.T) {
	r := &manualRedirector{}
	s := newOpenedStore(t, r, &r.manualTransport, newMemory())
	if _, replica := s.OnReplica(0); replica {
		t.Error("a replica before one was met")
	}
	res := reserve(s, 0, 1)
	r.answer(0, 0, readOnly)
	res.want(t, "readonly")
	r.wantSent(t, "EVALSHA ROLE")
	if master, replica := s.OnReplica(0); master != "" || !replica {
		t.Errorf("master %q, replica %v", master, replica)
	}
	r.answer(0, 1, masterRole)
	r.answer(0, 2, roleOf("10.0.0.7", 6380))
	r.wantSent(t, "EVALSHA ROLE ROLE")
	if master, replica := s.OnReplica(time.Hour); master != "10.0.0.7:6380" || !replica {
		t.Errorf("master %q, replica %v", master, replica)
	}
	res = reserve(s, 0, 2)
	r.wantSent(t, "EVALSHA ROLE ROLE 10.0.0.7:6380/EVALSHA")
	r.answer(0, 3, grantReply)
	res.want(t, "granted 1")
	res = reserve(s, 0, 3)
	r.answer(0, 4, readOnly) // a failover
	res.want(t, "readonly")
	r.answer(0, 5, roleOf("10.0.0.8", 6380))
	reserve(s, 0, 4)
	r.wantSent(t, "EVALSHA ROLE ROLE 10.0.0.7:6380/EVALSHA 10.0.0.7:6380/EVALSHA ROLE 10.0.0.8:6380/EVALSHA")
	s.Expire(manualTimeout)
	reserve(s, manualTimeout, 5)
	if got := r.sent[len(r.sent)-1]; got != "EVALSHA" {
		t.Errorf("after the master has not answered, %s is sent", got)
	}
}

// A replica that lags does not have what was just written to its master. It is asked for that one, too.
func TestReplicaThatLags(t *testing.T) {
	const unknownList = "*1\r\n:-3\r\n"
	r := &manualRedirector{}
	s := newOpenedStore(t, r, &r.manualTransport, newMemory())
	res := reserve(s, 0, 1)
	r.answer(0, 0, unknownList)
	r.answer(0, 3, unknownList) // behind the list and what its owner has in flight
	if !errors.Is(res.err, redisclient.ErrCandidatesLost) {
		t.Fatalf("the reservation: %s, %v", res, res.err)
	}
	r.wantSent(t, "EVALSHA EVALSHA EVALSHA EVALSHA ROLE")
	r.answer(0, 4, roleOf("10.0.0.7", 6380))
	reserve(s, 0, 2)
	if got := r.sent[len(r.sent)-1]; got != "10.0.0.7:6380/EVALSHA" {
		t.Errorf("then %s is sent", got)
	}

	r = &manualRedirector{}
	s = newOpenedStore(t, r, &r.manualTransport, newMemory())
	reserve(s, 0, 1)
	r.answer(0, 0, unknownList)
	r.answer(0, 3, unknownList)
	r.answer(0, 4, roleOf("redis-0.redis", 6379))
	if master, replica := s.OnReplica(0); master != "" || !replica {
		t.Errorf("master %q, replica %v", master, replica)
	}

	r = &manualRedirector{}
	s = newOpenedStore(t, r, &r.manualTransport, newMemory())
	reserve(s, 0, 1)
	r.answer(0, 0, unknownList)
	r.answer(0, 2, "-OOM no room\r\n") // so it is no wonder that the list is not there
	r.answer(0, 3, unknownList)
	r.wantSent(t, "EVALSHA EVALSHA EVALSHA EVALSHA")
}

// Without an address of the master the name stays in use, and the servers are not asked again and again.
func TestReplicaWithoutAMaster(t *testing.T) {
	for what, answer := range map[string]string{
		"a host name": roleOf("redis-0.redis", 6379), "a port that is none": roleOf("10.0.0.7", -1),
		"no right": noPerm, "no list": ":1\r\n", "a short list": "*1\r\n$5\r\nslave\r\n",
		"a sentinel": "*2\r\n$8\r\nsentinel\r\n*0\r\n",
	} {
		r := &manualRedirector{}
		s := newOpenedStore(t, r, &r.manualTransport, newMemory())
		reserve(s, 0, 1)
		r.answer(0, 0, readOnly)
		r.answer(0, 1, answer)
		reserve(s, 0, 2)
		if got := strings.Join(r.sent, " "); got != "EVALSHA ROLE EVALSHA" {
			t.Errorf("%s: sent %s", what, got)
		}
		if master, replica := s.OnReplica(0); master != "" || !replica {
			t.Errorf("%s: master %q, replica %v", what, master, replica)
		}
		if _, replica := s.OnReplica(time.Minute); replica {
			t.Errorf("%s: still on a replica after a minute", what)
		}
	}
	r := &manualRedirector{}
	s := newOpenedStore(t, r, &r.manualTransport, newMemory())
	reserve(s, 0, 1)
	r.answer(0, 0, readOnly)
	for i := range 10 { // the master alone is reached
		if i+1 < len(r.sent) {
			r.answer(0, i+1, masterRole)
		}
	}
	r.wantSent(t, "EVALSHA ROLE ROLE ROLE ROLE")

	var m manualTransport // which reaches no server by its address
	s = newOpenedStore(t, &m, &m, newMemory())
	reserve(s, 0, 1)
	m.answer(0, 0, readOnly)
	m.wantSent(t, "EVALSHA")
	if _, replica := s.OnReplica(0); !replica {
		t.Error("a replica is not known as one")
	}
}

// both is a transport whose name leads to a master and its replica in turn, and which reaches servers by address.
type both struct {
	byAddr map[string]*syncTransport
	name   []*syncTransport
	next   int
}

func (b *both) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	b.next++
	b.name[b.next%len(b.name)].Do(now, cmd, done)
}

func (b *both) DoAt(now time.Duration, node string, _ bool, cmd []byte, done redisclient.Done) {
	b.byAddr[node].Do(now, cmd, done)
}

// With a name that leads to a master and its replica, requests are counted in the master but for the first few.
func TestNameOfMasterAndReplica(t *testing.T) {
	master := redisserver.StartT(t, redisserver.Options{})
	replica := redisserver.StartReplicaT(t, master)
	b := &both{byAddr: map[string]*syncTransport{master.Addr(): dial(t, master)}}
	b.name = []*syncTransport{b.byAddr[master.Addr()], dial(t, replica)}
	s := newStore(b, 1, time.Second)
	granted := 0
	for i := range 150 {
		id := lb.LeaseID(i + 1)
		s.Reserve(0, id, storetest.Even(storetest.Addrs(2)), func(_ lb.Grant, err error) {
			if err == nil {
				granted++
			}
		})
		if i%10 == 0 {
			if err := s.Heartbeat(0); err != nil {
				t.Fatal(err)
			}
		}
		s.Release(0, id)
	}
	if granted < 140 {
		t.Errorf("%d of 150 requests were counted in Redis", granted)
	}
	if addr, on := s.OnReplica(0); addr != master.Addr() || !on {
		t.Errorf("master %q, replica %v", addr, on)
	}
}
