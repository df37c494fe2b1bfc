package redisclient_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// polling is an owner whose requests wait for what another one holds, in scopes with one endpoint each.
type polling struct {
	t      *testing.T
	holder *redisclient.Store
	s      *redisclient.Store
	conn   *syncTransport // of s
	now    time.Duration
	beat   time.Duration // when the next heartbeat is due
	scopes []string
	id     lb.LeaseID
}

func newPolling(t *testing.T, server *redisserver.Server, scopes int) *polling {
	t.Helper()
	p := &polling{t: t, conn: dial(t, server), now: time.Hour}
	p.conn.value("FLUSHALL")
	p.holder = newStore(dial(t, server), 1, time.Second)
	p.s = newStore(p.conn, 2, time.Second)
	for i := range scopes {
		p.scopes = append(p.scopes, fmt.Sprint("scope", i))
		p.reserve(p.holder, p.scopes[i]).want(t, "granted 0")
	}
	return p
}

func (p *polling) reserve(s *redisclient.Store, scope string) *result {
	plan := storetest.Even(storetest.Addrs(1))
	plan.Scope, plan.Candidates[0].Cap = scope, 1
	plan.Wait = lb.Wait{Max: time.Minute, Length: 100, Class: lb.Class{ID: 1, Weight: 1}}
	p.id++
	r := &result{}
	s.Reserve(p.now, p.id, plan, r.set)
	return r
}

// pass lets time pass: the owner polls when it is due, and sends heartbeats.
func (p *polling) pass(d time.Duration) {
	next := p.now
	for end := p.now + d; p.now < end; p.now += time.Millisecond {
		p.s.Expire(p.now)
		if next > 0 && p.now >= next {
			if next = p.s.Poll(p.now); next > 0 && next <= p.now {
				p.t.Fatalf("to be polled again at %v, at %v", next, p.now)
			}
		}
		if p.now >= p.beat {
			_ = p.s.Heartbeat(p.now)
			p.beat = p.now + time.Second
		}
	}
}

// A worker with waiting requests sends at most 50 commands in any second, in however many clusters they wait, and asks
// for each of these in turn.
func TestPollsAreBounded(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, scopes := range []int{1, 3, 10} {
		p := newPolling(t, server, scopes)
		for _, scope := range p.scopes {
			p.reserve(p.s, scope).want(t, "waits")
			p.reserve(p.s, scope).want(t, "waits")
		}
		p.pass(time.Second)
		most, commands := 0, []int{p.conn.sent}
		for range 500 {
			p.pass(10 * time.Millisecond)
			commands = append(commands, p.conn.sent)
		}
		for i := 100; i < len(commands); i++ {
			most = max(most, commands[i]-commands[i-100])
		}
		t.Logf("%d scopes: at most %d commands in a second", scopes, most)
		if most > 50 || most < 40 {
			t.Errorf("%d scopes: %d commands in a second, want 40 to 50", scopes, most)
		}
		for i := range p.scopes {
			p.holder.Release(p.now, lb.LeaseID(i+1))
		}
		p.pass(time.Duration(scopes) * lb.PollPeriod)
		for _, scope := range p.scopes {
			if n := len(p.s.WaitingIn(scope)); n != 1 {
				t.Errorf("%d scopes: %d requests wait in %s after each was asked for", scopes, n, scope)
			}
		}
	}
}

// A lost answer to a poll costs one period, whatever the time limit of a command is. Its answer may come late, and
// changes nothing then.
func TestLostAnswersToPolls(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for name, fate := range map[string]int{
		"command lost": notSent, "answer lost": replyLost, "command late": runsLate,
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolling(t, server, 1)
			r, next := p.reserve(p.s, p.scopes[0]), p.reserve(p.s, p.scopes[0])
			p.pass(100 * time.Millisecond)
			p.holder.Release(p.now, 1)
			lost := 0
			p.conn.fate = func([]byte) int {
				if lost++; lost > 1 {
					return arrives
				}
				return fate
			}
			p.pass(2 * lb.PollPeriod)
			r.want(t, "granted 0")
			p.conn.deliver()
			p.pass(200 * time.Millisecond)
			next.want(t, "waits")
			p.s.Release(p.now, 2)
			p.pass(2 * lb.PollPeriod)
			next.want(t, "granted 0")
			if lost < 2 || r.calls != 1 {
				t.Errorf("%d commands, %d answers", lost, r.calls)
			}
		})
	}
}

// However few answers come, no more than two polls of a cluster are on their way.
func TestPollsWithoutAnswers(t *testing.T) {
	p := newPolling(t, redisserver.StartT(t, redisserver.Options{}), 1)
	p.reserve(p.s, p.scopes[0]).want(t, "waits")
	p.pass(100 * time.Millisecond)
	sent := 0
	p.conn.fate = func([]byte) int { sent++; return notSent }
	if p.pass(900 * time.Millisecond); sent > 2+1 { // and a heartbeat
		t.Errorf("%d commands were sent within the time limit of the first", sent)
	}
}
