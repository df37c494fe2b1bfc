package redisclient_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// listOwner is a store with a list of its own.
type listOwner struct {
	*redisclient.Store
	pipe *batchTransport
	plan *lb.Plan
}

// newListOwners returns n gateways, each with width endpoints that no other has.
func newListOwners(t *testing.T, s *redisserver.Server, n, width int) (out []listOwner) {
	for i := range n {
		store, p := newBatchedStore(t, s, uint64(i+1))
		out = append(out, listOwner{store, p, storetest.Even(manyEndpoints(i*width, width))})
	}
	return out
}

// countListSends counts the lists that gateways send while each makes so many reservations, in turn.
func countListSends(t *testing.T, gateways []listOwner, now time.Duration, first lb.LeaseID, rounds int) (lists int) {
	t.Helper()
	for i := range rounds {
		for _, g := range gateways {
			id := first + lb.LeaseID(i)
			mustReserve(t, g.Store, g.pipe, now, id, g.plan)
			lists += listCommands(g.pipe.sent, g.plan.Candidates[0].Addr)
			g.Release(now, id)
			g.pipe.flush(now)
		}
	}
	return lists
}

// Gateways whose clusters have the same name and different endpoints, as with subsets and zones, send each list once.
func TestDifferentListsInOneScope(t *testing.T) {
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			const n, width, rounds = 8, 30, 200
			gateways := newListOwners(t, redisserver.StartT(t, redisserver.Options{Version: version}), n, width)
			got := countListSends(t, gateways, 0, 1, rounds)
			t.Logf("%d gateways of %d endpoints: %d list sends in %d reservations", n, width, got, n*rounds)
			if got > n {
				t.Errorf("%d lists were sent, want one by each of %d gateways", got, n)
			}
		})
	}
}

// Rows of a list in use are kept however often others replace their endpoints. Rows that were not on a list for a while
// are given to others.
func TestRowsOfOthersAreKept(t *testing.T) {
	const width, steps = 30, 40
	server := redisserver.StartT(t, redisserver.Options{})
	w := dial(t, server)
	gateways := newListOwners(t, server, 4, width)
	before := map[string]int{}
	for step := range steps {
		now := time.Duration(step) * 20 * time.Second
		for _, g := range gateways {
			if err := g.Heartbeat(now); err != nil {
				t.Fatal(err)
			}
			g.pipe.flush(now)
		}
		countListSends(t, gateways, now, lb.LeaseID(step+1), 1)
		for _, c := range gateways[0].plan.Candidates {
			row, ok := w.rows("llm")[c.Addr]
			if was, known := before[c.Addr]; !ok || known && was != row {
				t.Fatalf("step %d: %s is in row %d, %t, and was in row %d", step, c.Addr, row, ok, was)
			}
			before[c.Addr] = row
		}
		(&backend{conn: w}).Pass(20 * time.Second)
		last := &gateways[3] // a rolling deployment
		last.plan = storetest.Even(manyEndpoints((10+step)*width, width))
	}
	// At any time there are the rows in use, those that were listed within two minutes and a step, and as many as are
	// not worth freeing.
	maxRows := int64(4*width + 8*width + 64 + width)
	if rows := (w.value("STRLEN", redisclient.KeysOf("llm").Table).Int - 16) / 9; rows > maxRows {
		t.Errorf("the table has %d rows after %d endpoints, want %d at most", rows, (3+steps)*width, maxRows)
	}
}

// HSCAN may return a name twice. Its row is freed once, so that no two endpoints get it.
func TestARowIsFreedOnce(t *testing.T) {
	server := redisserver.StartT(t, redisserver.Options{})
	w := dial(t, server)
	gateways := newListOwners(t, server, 1, 4)
	countListSends(t, gateways, 0, 1, 1)
	w.ageRows(time.Hour)
	k, addr := redisclient.KeysOf("llm"), gateways[0].plan.Candidates[1].Addr
	w.value("EVAL", redisclient.ScriptText("free_rows"), "3", k.Table, k.Rows, k.Listed, "", "60", addr, addr)
	if _, ok := w.rows("llm")[addr]; ok {
		t.Fatalf("%s still has a row", addr)
	}
	gateways[0].plan = storetest.Even(manyEndpoints(10, 4))
	countListSends(t, gateways, 0, 2, 1)
	taken := map[int]string{}
	for name, row := range w.rows("llm") {
		if name != "" && taken[row] != "" {
			t.Errorf("%s and %s are both in row %d", name, taken[row], row)
		}
		taken[row] = name
	}
}

// ageRows moves the times at which rows were listed back.
func (w *syncTransport) ageRows(d time.Duration) {
	for _, key := range w.value("KEYS", redisclient.KeyPrefix+"*:listed").Items {
		stamps := w.value("GET", string(key.Str)).Str
		for at := 0; at+4 <= len(stamps); at += 4 {
			binary.LittleEndian.PutUint32(stamps[at:], binary.LittleEndian.Uint32(stamps[at:])-uint32(d/time.Second))
		}
		w.value("SET", string(key.Str), string(stamps), "KEEPTTL")
	}
}

// Options.Scope replaces the plan's scope: owners with the same one count together whatever the names of their
// clusters, and others do not, even if their clusters have that name.
func TestScopeOption(t *testing.T) {
	w := dial(t, redisserver.StartT(t, redisserver.Options{}))
	open := func(owner uint64, chosen, cluster string) *redisclient.Store {
		s := redisclient.New(w, redisclient.Options{
			Owner: owner, TTL: storetest.TTL, Timeout: time.Hour, KV: newMemory(), Scope: chosen,
		})
		plan := storetest.WithPrompt(manualPlan, 1, storetest.Blocks(owner))
		plan.Scope = cluster
		s.Reserve(0, 1, plan, func(_ lb.Grant, err error) {
			if err != nil {
				t.Fatal(err)
			}
		})
		s.Adopt(0, 2, cluster, "10.0.9.9:1", 5)
		s.ForgetPrompt(0, 1, plan, plan.Candidates[0].Addr, 0)
		if err := s.Heartbeat(0); err != nil || s.HeartbeatErr() != nil {
			t.Fatal(err, s.HeartbeatErr())
		}
		return s
	}
	stores := []*redisclient.Store{open(1, "", "llm"), open(2, "blue", "llm"), open(3, "blue", "llm-v2")}
	for i, want := range []int64{1, 2, 2} {
		cluster := []string{"llm", "llm", "llm-v2"}[i]
		stores[i].Loads(0, cluster, []string{"10.0.9.9:1"}, func(loads []lb.Load, err error) {
			if err != nil || loads[0].Requests != want {
				t.Errorf("store %d sees %v, %v, want %d requests", i, loads, err, want)
			}
		})
	}
	for scope, owners := range map[string]int64{"llm": 1, "blue": 2, "llm-v2": 0} {
		if got := w.value("ZCARD", redisclient.KeysOf(scope).Owners).Int; got != owners {
			t.Errorf("%d owners count in %s, want %d", got, scope, owners)
		}
	}
	for i, s := range stores {
		s.Release(0, 1)
		s.Release(0, 2)
		if s.Heartbeat(0); !s.Drained() {
			t.Errorf("store %d is not drained", i)
		}
	}
	if left := nonZero(w.loads("blue")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
