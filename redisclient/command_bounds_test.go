package redisclient_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// The limits of one command, so that no other has to wait long, whatever the sizes of the cluster and of the gateways.
const (
	maxCalls = 400  // commands that its script calls: a thousand take a millisecond or two
	maxWords = 300  // words of the command
	maxReply = 8000 // bytes
)

// costMeter is a transport that expects every command to be bounded.
type costMeter struct {
	*syncTransport
	server                   *redisserver.Server
	calls, words, replyBytes int // the maxima so far
}

func meterOf(t testing.TB, s *redisserver.Server) *costMeter {
	return &costMeter{syncTransport: dial(t, s), server: s}
}

func (m *costMeter) Do(now time.Duration, cmd []byte, done redisclient.Done) {
	v, _, err := redisclient.Parse(cmd)
	if err != nil {
		m.t.Fatal(err)
	}
	m.words = max(m.words, len(v.Items))
	before := m.executed()
	m.syncTransport.Do(now, cmd, func(now time.Duration, reply []byte, err error) {
		m.calls = max(m.calls, m.executed()-before)
		m.replyBytes = max(m.replyBytes, len(reply))
		done(now, reply, err)
	})
}

// executed returns how many commands the server has run, those called by scripts included.
func (m *costMeter) executed() (n int) {
	stats, err := m.server.CommandStats()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, s := range stats {
		n += int(s.Calls)
	}
	return n
}

func (m *costMeter) check(t *testing.T) {
	t.Helper()
	t.Logf("at most %d calls by one command, %d words, a reply of %d bytes", m.calls, m.words, m.replyBytes)
	if m.calls > maxCalls || m.words > maxWords || m.replyBytes > maxReply {
		t.Errorf("one command made %d calls, had %d words, and was answered with %d bytes; want %d, %d and %d at most",
			m.calls, m.words, m.replyBytes, maxCalls, maxWords, maxReply)
	}
	m.calls, m.words, m.replyBytes = 0, 0, 0
}

func (m *costMeter) store(owner uint64) *redisclient.Store {
	o := redisclient.Options{Owner: owner, TTL: storetest.TTL, Timeout: time.Hour, KV: newMemory()}
	return redisclient.New(m, o)
}

// manyEndpoints are n addresses, the first of which has the given number.
func manyEndpoints(first, n int) (addrs []string) {
	for i := first; i < first+n; i++ {
		addrs = append(addrs, fmt.Sprintf("10.%d.%d.%d:8000", i>>16, i>>8&255, i&255))
	}
	return addrs
}

// reserveMany has an owner reserve n leases on eight endpoints.
func reserveMany(t *testing.T, s *redisclient.Store, p *batchTransport, n int) {
	t.Helper()
	plan := storetest.Even(storetest.Addrs(8))
	for id := range lb.LeaseID(n) {
		s.Reserve(0, id, plan, func(_ lb.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		if id == 0 { // which loads the script
			p.flush(0)
		}
	}
	p.flush(0)
}

// No command takes long, neither when gateways with thousands of requests die, nor when all their leases are lost, nor
// when thousands of endpoints are replaced by others.
func TestCommandsAreBounded(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	m := meterOf(t, server)
	m.value("FLUSHALL")
	t.Run("many leases", func(t *testing.T) { manyLeases(t, m, server) })
	t.Run("dead owners", func(t *testing.T) { deadOwners(t, m, server) })
	t.Run("many wait", func(t *testing.T) { manyWait(t, m, server) })
	t.Run("many owners", func(t *testing.T) { manyOwners(t, m) })
	t.Run("many tasks", func(t *testing.T) { manyTasks(t, m) })
	t.Run("many tenants", func(t *testing.T) { manyTenants(t, m) })
	t.Run("many endpoints", func(t *testing.T) { manyEndpointsChange(t, m) })
}

func manyLeases(t *testing.T, m *costMeter, server *redisserver.Server) {
	t.Helper()
	s, p := newBatchedStore(t, server, 1)
	reserveMany(t, s, p, 2000)
	for _, lost := range []string{"nothing", "own", "table"} {
		switch lost {
		case "own":
			m.value("DEL", redisclient.KeysOf("llm").Leases+"1")
		case "table":
			m.value("DEL", redisclient.KeysOf("llm").Table)
		}
		s.Heartbeat(time.Second)
		for len(p.done) > 0 { // one by one, as the meter wants them
			cmd, done := p.next[0], p.done[0]
			p.next, p.done, p.out = p.next[1:], p.done[1:], nil
			m.Do(0, cmd, done)
		}
		wantInFlight(t, m.syncTransport, 2000)
	}
	m.check(t)
}

func deadOwners(t *testing.T, m *costMeter, server *redisserver.Server) {
	t.Helper()
	const dead, each = 3, 2000
	m.value("FLUSHALL")
	for owner := range uint64(dead) {
		s, p := newBatchedStore(t, server, owner+1)
		reserveMany(t, s, p, each)
	}
	wantInFlight(t, m.syncTransport, dead*each)
	(&backend{conn: m.syncTransport}).Pass(time.Minute)
	s := m.store(9)
	reserve(s, 0, 1).want(t, "granted 0")
	s.Heartbeat(0)
	wantInFlight(t, m.syncTransport, 1)
	m.check(t)
}

// manyWait has an owner die whose leases many requests of another one wait for.
func manyWait(t *testing.T, m *costMeter, server *redisserver.Server) {
	t.Helper()
	const n = 400
	m.value("FLUSHALL")
	dead, p := newBatchedStore(t, server, 1)
	reserveMany(t, dead, p, n)
	s := m.store(9)
	plan := storetest.Even(storetest.Addrs(8))
	for i := range plan.Candidates {
		plan.Candidates[i].Cap = n / 8
	}
	plan.Wait = lb.Wait{Max: time.Hour, Length: 2 * n, Class: lb.Class{ID: 1, Weight: 1}}
	granted := 0
	for id := range lb.LeaseID(n) {
		plan.Wait.Tenant = uint64(id % 40)
		s.Reserve(0, id, plan, func(_ lb.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
			granted++
		})
	}
	(&backend{conn: m.syncTransport}).Pass(time.Minute)
	s.Heartbeat(0)
	for range 50 {
		s.PollSoon()
		s.Poll(0)
	}
	if granted != n {
		t.Errorf("%d of %d requests were granted", granted, n)
	}
	wantInFlight(t, m.syncTransport, n)
	for id := range lb.LeaseID(n) {
		s.Release(0, id)
	}
	m.check(t)
}

// manyTasks has the table of many tasks be lost, and then all of them be abandoned at once.
func manyTasks(t *testing.T, m *costMeter) {
	t.Helper()
	const n = 400
	m.value("FLUSHALL")
	s, keys := m.store(1), redisclient.KeysOf("llm")
	plan := storetest.Budgeted(storetest.Addrs(8), budget.Limits{Weight: 1}, 10)
	schedule := func() {
		s.Schedule(0, 0, time.Hour, plan, func(_ lb.Task, err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	inFlight := func() (sum int64) {
		for _, l := range m.loads("llm") {
			sum += l.Requests
		}
		return sum
	}
	for range n {
		plan.Random++
		schedule()
	}
	m.value("DEL", keys.Table)
	s.Heartbeat(0)
	if got := inFlight(); got != n {
		t.Errorf("%d of %d tasks are counted", got, n)
	}
	for i, id := range m.value("ZRANGEBYSCORE", keys.Expiry, "-inf", "(+inf").Items {
		if i >= 20 { // of which a command that schedules another one ends some
			m.value("ZADD", keys.Expiry, "1", string(id.Str))
		}
	}
	schedule()
	s.Heartbeat(time.Second)
	if got := inFlight(); got != 21 {
		t.Errorf("%d tasks are counted, want 21", got)
	}
	m.check(t)
}

// manyTenants has others come when thousands may be forgotten, and then when their rows are lost.
func manyTenants(t *testing.T, m *costMeter) {
	t.Helper()
	m.value("FLUSHALL")
	s, keys := m.store(1), redisclient.KeysOf("tenants/llm")
	come := func(from, to int) {
		for i := from; i < to; i++ {
			id := lb.LeaseID(i + 1)
			s.Reserve(0, id, storetest.TenantPlan(i, budget.Limits{}, 0, 10), func(_ lb.Grant, err error) {
				if err != nil {
					t.Fatal(err)
				}
			})
			s.Release(0, id)
		}
	}
	come(0, 3000)
	known := m.value("HLEN", keys.Tenants).Int
	for addr := range m.rows("tenants/llm") {
		m.value("HSET", keys.Tenants, addr, strings.Repeat("\x00", 88))
	}
	come(3000, 3100)
	if left := m.value("HLEN", keys.Tenants).Int; known < 3000 || left > known-1000 {
		t.Errorf("%d tenants were known, %d are after 100 others have come", known, left)
	}
	m.value("DEL", keys.Table)
	come(3100, 3800)
	s.Heartbeat(0)
	m.check(t)
}

func manyOwners(t *testing.T, m *costMeter) {
	t.Helper()
	m.value("FLUSHALL")
	for owner := range uint64(300) {
		reserve(m.store(owner+1), 0, 1)
	}
	(&backend{conn: m.syncTransport}).Pass(-time.Hour)
	s := m.store(999)
	reserve(s, 0, 1)
	s.Heartbeat(0)
	(&backend{conn: m.syncTransport}).Pass(time.Hour + time.Minute)
	for range 4 { // each heartbeat corrects at most a hundred owners' times
		s.Heartbeat(0)
		(&backend{conn: m.syncTransport}).Pass(time.Minute)
	}
	s.Heartbeat(0)
	wantInFlight(t, m.syncTransport, 1)
	m.check(t)
}

func manyEndpointsChange(t *testing.T, m *costMeter) {
	t.Helper()
	const n = 4096
	m.value("FLUSHALL")
	s := m.store(1)
	for i := range 4 {
		now, id := time.Duration(i)*time.Minute, lb.LeaseID(i)
		s.Reserve(now, id, storetest.Even(manyEndpoints(i*n, n)), func(_ lb.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		s.Release(now, id)
		m.ageRows(5 * time.Minute)
	}
	s.Loads(0, "llm", manyEndpoints(0, 4000), func(_ []lb.Load, err error) {
		if err != nil {
			t.Error(err)
		}
	})
	m.check(t)
	if rows := (m.value("STRLEN", redisclient.KeysOf("llm").Table).Int - 16) / 9; rows > 64+3*n {
		t.Errorf("the table has %d rows for %d endpoints at a time", rows, n)
	}
}

// wantInFlight expects so many requests in flight, by the totals and by the leases.
func wantInFlight(t testing.TB, w *syncTransport, want int64) {
	t.Helper()
	var all []map[lb.LeaseID]heldLease
	for _, held := range w.leases("llm") {
		all = append(all, held)
	}
	loads, total := nonZero(w.loads("llm")), int64(0)
	if leases := sumLoads(all...); !maps.Equal(loads, leases) {
		t.Fatalf("the totals are %v, the sum of the leases %v", loads, leases)
	}
	for _, l := range loads {
		total += l.Requests
	}
	if total != want {
		t.Errorf("%d in flight, want %d", total, want)
	}
}
