package redisclient_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// What budgets add to the commands is byte for byte as documented in the scripts.
func TestFormatsOfBudgets(t *testing.T) {
	const (
		three = "\x00\x00\x00\x00\x00\x00\x08\x40"
		none  = "\x00\x00\x00\x00\x00\x00\xf0\xbf"
	)
	plan := formatPlan()
	plan.Prefix = lb.Prefix{Bytes: 1, TTL: time.Minute, Blocks: storetest.Blocks(1, 2)} // not looked up
	plan.Budget = lb.Budget{
		Tokens: 3, AgeBonus: 0.5,
		Limits: []budget.Limits{{Weight: 1, Tokens: 2}, {Weight: 2, Requests: 0.5}, {Weight: 0.5}},
	}
	m := &manualTransport{}
	s := newManualStore(m, newMemory())
	var grant lb.Grant
	var refused error
	s.Reserve(formatTime, formatID, plan, func(g lb.Grant, err error) { grant = g })
	m.wantArguments(t, 0, "1", "60000", "10000", strings.Repeat("\x00", 56),
		formatTag+"\x16\x9d\xa2\xa6"+"\x0e\x86\x59\x5f", "\x00\x00\x00\x00\x00\x00",
		formatOne+formatTwo+formatZero+three+formatTwo+formatTwo+formatZero+formatHalf+formatZero+formatZero+
			formatHalf+formatZero+formatZero+formatZero+formatZero+"10.0.0.1:80\n10.0.0.2:80\n10.0.0.3:80\n",
		"10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")
	m.wantArguments(t, 1, formatID0, three+formatHalf)
	m.answer(formatTime, 1, "$30\r\n"+"\x02\x00"+"\x34\x33\x32\x31"+"\x28\x27\x26\x25\x24\x23\x22\x21"+
		formatHalf+none+"\r\n")
	want := lb.Grant{
		Index: 2, Load: lb.Load{Requests: 0x31323334, Tokens: 0x2122232425262728},
		Left: budget.Left{Tokens: 0.5, Requests: -1},
	}
	if grant != want {
		t.Errorf("granted %+v, want %+v", grant, want)
	}
	s.Reserve(formatTime, formatID+1, plan, func(g lb.Grant, err error) { grant, refused = g, err })
	m.answer(formatTime, 2, "*2\r\n:-7\r\n$26\r\n"+three+"\x01\x00"+formatZero+none+"\r\n")
	want = lb.Grant{Index: 1, Left: budget.Left{Requests: -1}, Expected: 3 * time.Millisecond}
	if grant != want || !errors.Is(refused, lb.ErrOverBudget) {
		t.Errorf("refused %+v %v, want %+v", grant, refused, want)
	}
	s.Settle(formatTime, formatID, "10.0.0.2:80", -8, -1)
	m.wantArguments(t, 3, "10.0.0.2:80", "-8", "-1")
	s.Restrict(formatTime, "llm", "10.0.0.2:80", budget.Restriction{
		Tokens: 0.5, Requests: -1,
		TokensReset: 1, RequestsReset: 2 * time.Millisecond, RetryAfter: 2*time.Millisecond + 1,
		MaxClosed: 2 * time.Millisecond, Reopen: true,
	})
	m.wantArguments(t, 4, "10.0.0.2:80", formatHalf+none+formatOne+formatTwo+three+formatTwo+formatOne)
	s.Reserve(formatTime, formatID+2, plan, func(lb.Grant, error) {})
	s.Release(formatTime, formatID+2)
	m.wantArguments(t, 6, "\x1a"+formatID0[1:], three+formatHalf, "120000")
}

// A table that is full of tenants is no failure of Redis: others use it, and those who are known keep to their budgets.
func TestTooManyTenants(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	w := dial(t, server)
	s := redisclient.New(w, redisclient.Options{Owner: 1, TTL: time.Hour, Timeout: time.Hour, KV: newMemory()})
	reserve := func(id lb.LeaseID, p *lb.Plan) (err error) {
		s.Reserve(0, id, p, func(_ lb.Grant, e error) { err = e })
		return err
	}
	known := storetest.TenantPlan(1, budget.Limits{}, 1, 10)
	if err := reserve(1, known); err != nil {
		t.Fatal(err)
	}
	w.value("SETRANGE", redisclient.KeysOf("tenants/llm").Table, strconv.Itoa(16+9*65000-1), "\x00")
	for id := lb.LeaseID(2); id < 100; id++ {
		p := storetest.TenantPlan(int(id), budget.Limits{}, 1, 10)
		if err := reserve(id, p); redisclient.Cause(err) != "no_room" {
			t.Fatal(err)
		}
		s.Adopt(0, id|1<<63, p.Scope, p.Candidates[0].Addr, 10)
		if !s.Ready(0) {
			t.Fatalf("after %d tenants too many Redis is not used any more", id-1)
		}
	}
	if err := reserve(100, known); !errors.Is(err, lb.ErrOverBudget) {
		t.Error(err)
	}
	if err := reserve(101, manualPlan); err != nil {
		t.Error(err)
	}
}

// However long a request would have to wait, its answer is one.
func TestExpectedWaitsAreClamped(t *testing.T) {
	const left = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, ms := range []string{ // 7e305, infinite
		"\x00\x00\x00\x00\x00\x00\x70\x7f", "\x00\x00\x00\x00\x00\x00\xf0\x7f",
	} {
		m := &manualTransport{}
		s := newManualStore(m, newMemory())
		plan, got, refused := formatPlan(), lb.Grant{}, error(nil)
		plan.Budget.Limits = make([]budget.Limits, 3)
		s.Reserve(0, 1, plan, func(g lb.Grant, err error) { got, refused = g, err })
		m.answer(0, 1, "*2\r\n:-7\r\n$26\r\n"+ms+"\x01\x00"+left+"\r\n")
		if !errors.Is(refused, lb.ErrOverBudget) || got.Expected != 1<<40*time.Millisecond {
			t.Errorf("%q: %v, %v", ms, got.Expected, refused)
		}
	}
}

// Tenants who lie idle are forgotten, so that what is stored does not grow with the names that clients make up.
func TestIdleTenantsAreForgotten(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	b := openClocked(t, server, false, nil)(t).(*clocked)
	s, now, keys := b.NewOwner(), time.Hour, redisclient.KeysOf("tenants/llm")
	most := int64(0)
	for i := range 6000 {
		id := lb.LeaseID(i + 1)
		s.Reserve(now, id, storetest.TenantPlan(i, budget.Limits{Tokens: 1000}, 1, 10), func(_ lb.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		s.Release(now, id)
		if i%300 == 299 { // 1,500 come in a minute
			now += 12 * time.Second
			b.Pass(12 * time.Second)
			if err := s.Heartbeat(now); err != nil {
				t.Fatal(err)
			}
			rows := (b.conn.value("STRLEN", keys.Table).Int - 16) / 9
			most = max(most, b.conn.value("HLEN", keys.Tenants).Int, b.conn.value("HLEN", keys.Rows).Int, rows)
		}
	}
	if t.Logf("at most %d tenants were known", most); most > 3000 {
		t.Errorf("%d tenants are known, of whom 1,800 were the latest", most)
	}
	if ttl := b.conn.value("PTTL", keys.Tenants).Int; ttl < 5_400_000 || ttl > 7_200_000 {
		t.Errorf("the budgets live for %d ms", ttl)
	}
	rows := map[int]string{}
	for addr, row := range b.conn.rows("tenants/llm") {
		if other := rows[row]; other != "" {
			t.Errorf("%s and %s have row %d", addr, other, row)
		}
		rows[row] = addr
	}
}

// What budgets of tenants add is byte for byte as documented in the scripts. They have a scope of their own, also where
// all others have one.
func TestFormatsOfTenants(t *testing.T) {
	m := &manualTransport{}
	s := redisclient.New(m, redisclient.Options{
		Owner: 1, TTL: storetest.TTL, Timeout: manualTimeout, KV: newMemory(), Scope: "all",
	})
	limits := lb.TenantBudget{Header: "x", Limits: budget.Limits{Tokens: 2, Requests: 0.5}, MaxConcurrent: 2}
	plan := limits.Plan("tenants/llm", 0xabc, 1)
	var grant lb.Grant
	s.Reserve(formatTime, formatID, plan, func(g lb.Grant, err error) { grant = g })
	params := formatOne + formatOne + formatTwo + formatHalf + formatTwo + formatZero
	m.wantArguments(t, 0, "abc", formatID0, "1", "60000", params)
	m.answer(formatTime, 0, "$30\r\n"+"\x00\x00"+"\x34\x33\x32\x31"+"\x28\x27\x26\x25\x24\x23\x22\x21"+
		formatOne+formatHalf+"\r\n")
	want := lb.Grant{
		Load: lb.Load{Requests: 0x31323334, Tokens: 0x2122232425262728}, Left: budget.Left{Tokens: 1, Requests: 0.5},
	}
	if grant != want {
		t.Errorf("granted %+v, want %+v", grant, want)
	}
	s.Settle(formatTime, formatID, "abc", -8, 0)
	m.wantArguments(t, 1, "abc", "-8", "0")
	s.Reserve(formatTime, formatID+1, plan, func(lb.Grant, error) {})
	s.Release(formatTime, formatID+1)
	m.wantArguments(t, 3, "abc", "\x19"+formatID0[1:], "1", "60000", params, "120000")
	for i, cmd := range m.cmds {
		if !strings.Contains(string(cmd), redisclient.KeyPrefix+"{tenants/all}:tenants2\r\n") {
			t.Errorf("command %d is %q", i, cmd)
		}
	}
}

// The answer to a move that comes after the lease has moved on says nothing of where it is by then.
func TestLateAnswerToAMove(t *testing.T) {
	m := &manualTransport{}
	s := redisclient.New(m, redisclient.Options{Owner: 1, TTL: storetest.TTL, Timeout: manualTimeout, KV: newMemory()})
	plan := (&lb.TenantBudget{Header: "x", Limits: budget.Limits{Tokens: 1}}).Plan("tenants/llm", 0xabc, 1)
	s.Reserve(formatTime, formatID, plan, func(lb.Grant, error) {})
	m.answer(formatTime, 0, "$30\r\n"+strings.Repeat("\x00", 30)+"\r\n")
	s.Settle(formatTime, formatID, "abc", -1, -1)
	s.Settle(formatTime, formatID, "b", 1, 1)
	s.Settle(formatTime, formatID, "b", -1, -1) // not known to be charged yet
	s.Settle(formatTime, formatID, "c", 1, 1)
	sent := len(m.cmds)
	m.answer(formatTime, 2, ":1\r\n")
	if s.Settle(formatTime, formatID, "c", -1, -1); len(m.cmds) != sent || sent != 3 {
		t.Errorf("%d commands, then %d: c was never charged", sent, len(m.cmds))
	}
}

// Answers to reservations with budgets that no script returns are refused.
func TestBudgetReplies(t *testing.T) {
	const left = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	for _, reply := range []string{
		"$14\r\n" + "\x02\x00\x34\x33\x32\x31\x28\x27\x26\x25\x24\x23\x22\x21" + "\r\n",
		"*2\r\n:-7\r\n:1\r\n", "*1\r\n:-7\r\n",
		"*2\r\n:-7\r\n$26\r\n" + formatOne + "\x03\x00" + left + "\r\n", // no such candidate
		"*2\r\n:-7\r\n$27\r\n" + formatOne + "\x01\x00" + left + "x\r\n",
		"*2\r\n:-7\r\n$26\r\n" + "\x00\x00\x00\x00\x00\x00\xf0\xbf" + "\x01\x00" + left + "\r\n", // -1 ms
		"*2\r\n:-7\r\n$26\r\n" + "\x00\x00\x00\x00\x00\x00\xf8\x7f" + "\x01\x00" + left + "\r\n", // not a number
	} {
		m := &manualTransport{}
		s := newManualStore(m, newMemory())
		plan, got := formatPlan(), error(nil)
		plan.Budget.Limits = make([]budget.Limits, 3)
		s.Reserve(0, 1, plan, func(_ lb.Grant, err error) { got = err })
		m.answer(0, 1, reply)
		if redisclient.Cause(got) != "garbage" {
			t.Errorf("%q: %v", reply, got)
		}
	}
}

// Targets that lie idle are forgotten, so that the key does not grow with the endpoints that come and go; those whose
// budget is used up are not. The key expires.
func TestIdleBudgetsAreForgotten(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	b := openClocked(t, server, false, nil)(t).(*clocked)
	s, now := b.NewOwner(), time.Hour
	pass := func(d time.Duration) {
		now += d
		b.Pass(d)
	}
	spend := func(addrs []string, tokens int64) error {
		var refused error
		p := storetest.Budgeted(addrs, budget.Limits{Weight: 1, Tokens: 1000}, tokens)
		id := lb.LeaseID(now)
		s.Reserve(now, id, p, func(_ lb.Grant, err error) { refused = err })
		s.Release(now, id)
		pass(time.Millisecond)
		return refused
	}
	all := storetest.Addrs(200)
	if err := spend(all[199:], 100_000); err != nil { // used up for an hour and 39 minutes
		t.Fatal(err)
	}
	for i := range all[:199] {
		if err := spend(all[i:i+1], 10); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if n := len(first(b.conn.budgets("llm"))); n > 66+1 {
			t.Fatalf("%d targets are known, but 61 of the latest", n)
		}
	}
	if err := spend(all[199:], 1); !errors.Is(err, lb.ErrOverBudget) {
		t.Errorf("a target that was used up takes a request: %v", err)
	}
	if ttl := b.conn.value("PTTL", redisclient.KeysOf("llm").Budget).Int; ttl < 5_400_000 || ttl > 7_200_000 {
		t.Errorf("the budgets live for %d ms", ttl)
	}
}

func first[A, B any](a A, _ B) A { return a }
