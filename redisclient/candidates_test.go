package redisclient_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// listCommands counts the commands that store a list of candidates: those that contain an address of it.
func listCommands(cmds [][]byte, addr string) (n int) {
	for _, cmd := range cmds {
		if bytes.Contains(cmd, []byte(":view:")) && bytes.Contains(cmd, []byte(addr)) {
			n++
		}
	}
	return n
}

// newBatchedStore returns a store over a batchTransport, to a server that has all scripts.
func newBatchedStore(t testing.TB, s *redisserver.Server, owner uint64) (*redisclient.Store, *batchTransport) {
	loadScripts(dial(t, s))
	p := newBatchTransport(t, s)
	return newStore(p, owner, time.Second), p
}

// loadScripts loads the scripts, for tests that count what is sent.
func loadScripts(w *syncTransport) {
	s := newManualStore(w, newMemory())
	plan := storetest.Even([]string{"10.0.99.1:80"})
	plan.Scope = "another"
	s.Reserve(0, 1, plan, func(lb.Grant, error) {})
	s.Reserve(0, 3, storetest.WithPrompt(plan, 1, storetest.Blocks(1)), func(lb.Grant, error) {})
	s.ForgetPrompt(0, 1, storetest.WithPrompt(plan, 1, storetest.Blocks(1)), "10.0.99.1:80", 0)
	s.Adopt(0, 2, "another", "10.0.99.1:80", 1)
	s.Amend(0, 1, "", 7)
	s.Release(0, 1)
	s.Release(0, 2)
	s.Release(0, 3)
	s.Heartbeat(0)
}

// mustReserve reserves over a batchTransport and returns the address.
func mustReserve(
	t testing.TB, s *redisclient.Store, p *batchTransport, now time.Duration, id lb.LeaseID, plan *lb.Plan,
) string {
	t.Helper()
	addr := ""
	s.Reserve(now, id, plan, func(g lb.Grant, err error) {
		if err != nil {
			t.Fatal(err)
		}
		addr = plan.Candidates[g.Index].Addr
	})
	p.flush(now)
	return addr
}

// A list of candidates is sent once, and again when it was not used for so long that Redis may have forgotten it.
func TestListIsSentOnce(t *testing.T) {
	s, p := newBatchedStore(t, redisserver.StartT(t, redisserver.Options{}), 1)
	plan := storetest.Even(storetest.Addrs(3))
	sent := func(now time.Duration, plan *lb.Plan) int {
		id := lb.LeaseID(now)
		mustReserve(t, s, p, now, id, plan)
		return listCommands(p.sent, plan.Candidates[0].Addr)
	}
	now := time.Second
	if n := sent(now, plan); n != 1 {
		t.Fatalf("sent %d times at first", n)
	}
	for range 30 { // it is in use, so heartbeats renew it
		now += time.Second
		s.Heartbeat(now)
		if n := sent(now, plan); n != 0 {
			t.Fatalf("sent %d times at %v", n, now)
		}
	}
	other := storetest.Even(storetest.Addrs(3))
	other.Candidates[1].Weight = 2
	if n := sent(now+1, other); n != 1 {
		t.Fatalf("another list was sent %d times", n)
	}
	same := storetest.Even(storetest.Addrs(3)) // a copy with the same content
	if n := sent(now+2, same); n != 0 {
		t.Fatalf("a list of the same content was sent %d times", n)
	}
	if n := sent(now+3, plan); n != 0 {
		t.Fatalf("the first list was sent %d times, beside another", n)
	}
	if n := sent(now+20*time.Second, plan); n != 1 {
		t.Fatalf("sent %d times after a long time", n)
	}
}

// When Redis has lost the list and many requests are refused because of that, the list is sent once, and all succeed.
func TestListIsSentAgainOnce(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	for _, lost := range []string{"view", "table", "everything", "own"} {
		t.Run(lost, func(t *testing.T) {
			mustDo(t, server, []any{"FLUSHALL"})
			s, p := newBatchedStore(t, server, 7)
			mustReserve(t, s, p, 0, 1, manualPlan)
			k := redisclient.KeysOf("llm")
			switch lost {
			case "view":
				for _, key := range dial(t, server).value("KEYS", "*:view:*").Items {
					mustDo(t, server, []any{"DEL", string(key.Str)})
				}
			case "table":
				mustDo(t, server, []any{"DEL", k.Table})
			case "own":
				mustDo(t, server, []any{"DEL", k.Leases + "7"})
			default:
				mustDo(t, server, []any{"FLUSHALL"})
			}
			var results []*result
			for id := range lb.LeaseID(200) {
				results = append(results, reserve(s, time.Second, id+2))
			}
			p.flush(time.Second)
			if n := listCommands(p.all, manualPlan.Candidates[0].Addr); n != 2 {
				t.Errorf("sent %d times, with the first", n)
			}
			for _, r := range results {
				if r.err != nil || r.calls != 1 {
					t.Fatalf("a reservation: %s, %v", r, r.err)
				}
			}
		})
	}
}

// Five lists that are used in turn all work.
func TestManyLists(t *testing.T) {
	s, p := newBatchedStore(t, redisserver.StartT(t, redisserver.Options{}), 1)
	var plans []*lb.Plan
	for i := range 5 {
		plan := storetest.Even(storetest.Addrs(6)[i : i+2])
		plans = append(plans, plan)
	}
	for id := range lb.LeaseID(50) {
		plan := plans[id%5]
		addr := mustReserve(t, s, p, 0, id+1, plan)
		if addr != plan.Candidates[0].Addr && addr != plan.Candidates[1].Addr {
			t.Fatalf("list %d led to %s", id%5, addr)
		}
	}
}

// Hundreds of endpoints replace each other one by one, with two owners in turn: rows are reused after a while, the
// table stays small, and no endpoint inherits the load of its predecessor in the row.
func TestRollingReplacement(t *testing.T) {
	const width, steps, each, unlisted = 4, 400, 10 * time.Second, 2 * time.Minute
	server := redisserver.StartT(t, redisserver.Options{})
	a, ap := newBatchedStore(t, server, 1)
	b, bp := newBatchedStore(t, server, 2)
	w := dial(t, server)
	var addrs []string
	for i := range width + steps {
		addrs = append(addrs, fmt.Sprintf("10.%d.%d.1:80", i/256, i%256))
	}
	mustReserve(t, a, ap, 0, 1, storetest.Even(addrs[:1])) // a long request at an endpoint that goes first
	for i := range steps {
		id := lb.LeaseID(i + 2)
		plan := storetest.Even(addrs[i+1 : i+width])
		mustReserve(t, a, ap, 0, id, plan)
		mustReserve(t, b, bp, 0, id, plan)
		loads := w.loads("llm")
		total := int64(0)
		for _, c := range plan.Candidates {
			total += loads[c.Addr].Requests
		}
		if total != 2 {
			t.Fatalf("step %d: the endpoints carry %d requests, want 2: %v", i, total, loads)
		}
		a.Release(0, id)
		b.Release(0, id)
		ap.flush(0)
		bp.flush(0)
		w.ageRows(each)
	}
	// Rows are not freed while there are few, nor fewer than 64 of them.
	const maxRows = 64 + 3*width + 64 + int64(unlisted/each)
	if rows := (w.value("STRLEN", redisclient.KeysOf("llm").Table).Int - 16) / 9; rows > maxRows {
		t.Errorf("the table has %d rows for %d endpoints at a time", rows, width)
	}
	generation := w.value("GETRANGE", redisclient.KeysOf("llm").Table, "8", "11").Str
	if string(generation) == "\x00\x00\x00\x00" {
		t.Error("no row was ever used again")
	}
	if got := w.loads("llm")[addrs[0]].Requests; got != 1 {
		t.Errorf("the endpoint that went first carries %d, want 1", got)
	}
	a.Release(0, 1)
	ap.flush(0)
	if left := nonZero(w.loads("llm")); len(left) > 0 {
		t.Errorf("after the drain: %v", left)
	}
}

// A scope may have ten thousand endpoints. More than a table has rows are refused, without any harm to the others.
func TestHugeClusters(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	s, p := newBatchedStore(t, server, 1)
	list := func(n int) *lb.Plan {
		plan := &lb.Plan{Scope: "llm"}
		for i := range n {
			addr := "10.0.0.1:" + strconv.Itoa(i)
			plan.Candidates = append(plan.Candidates, lb.Candidate{Addr: addr, Slope: 1, Weight: 1, Base: 1})
		}
		plan.Candidates[n-1].Base = 0
		return plan
	}
	if addr, want := mustReserve(t, s, p, 0, 1, list(10_000)), "10.0.0.1:9999"; addr != want {
		t.Errorf("chose %s, want %s", addr, want)
	}
	var refused error
	s.Reserve(0, 2, list(70_000), func(_ lb.Grant, err error) { refused = err })
	p.flush(0)
	if refused == nil || redisclient.Cause(refused) != "no_room" {
		t.Errorf("70,000 endpoints: %v", refused)
	}
	if addr := mustReserve(t, s, p, 0, 3, storetest.Even(storetest.Addrs(1))); addr == "" {
		t.Error("a small list of the same scope is refused")
	}
}

// The reason why Redis refused a list is the reason of the reservation's failure.
func TestListRefused(t *testing.T) {
	var m manualTransport
	s := newManualStore(&m, newMemory())
	r := reserve(s, 0, 1)
	m.answer(0, 0, "-OOM no\r\n")
	m.answer(0, 1, "*1\r\n:-3\r\n")
	m.answer(0, 2, "-OOM no\r\n")
	m.answer(0, 3, "*1\r\n:-3\r\n")
	if r.calls != 1 || redisclient.Cause(r.err) != "oom" {
		t.Errorf("%s, %v", r, r.err)
	}
	if want := strings.TrimSuffix(strings.Repeat("EVALSHA ", 4), " "); !slices.Equal(m.sent, strings.Fields(want)) {
		t.Errorf("sent %q", m.sent)
	}
}
