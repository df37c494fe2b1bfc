package redisclient_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// budgetHistory is a random history of several owners with budgets, over faulty connections.
type budgetHistory struct {
	rt     *rapid.T
	rng    *rand.Rand // seeded for each step, so that a failing history is reduced to few steps
	server *redisserver.Server
	model  *budgetModel
	owners []*historyOwner
	names  uint64
	next   lb.LeaseID
	now    time.Duration // of the gateways, which no clock step changes
	plans  []*lb.Plan    // by configurations of which some are older
	since  time.Duration // of the last heartbeats
	scope  string
}

func newBudgetHistory(
	rt *rapid.T, server *redisserver.Server, count map[string]int, scope string,
) *budgetHistory {
	h := &budgetHistory{rt: rt, server: server, now: time.Hour, scope: scope}
	root := dial(rt, server)
	root.value("FLUSHALL")
	h.model = newBudgetModel(rt, root, scope)
	h.model.count = count
	h.seed()
	for range 3 {
		h.push()
	}
	return h
}

func (h *budgetHistory) seed() { h.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(h.rt, "step"), 5)) }

// join adds an owner.
func (h *budgetHistory) join() {
	h.names++
	f := &faultyTransport{conn: dial(h.rt, h.server), rt: h.rt}
	f.conn.ran = h.model.ran
	h.owners = append(h.owners, &historyOwner{
		Store: redisclient.New(f, redisclient.Options{
			Owner: h.names, TTL: storetest.TTL, Timeout: 20 * time.Millisecond, KV: newMemory(),
		}),
		name: strconv.FormatUint(h.names, 16), conn: f,
		pending: map[lb.LeaseID]bool{}, held: map[lb.LeaseID]heldLease{},
	})
}

// push changes the configuration of some: other weights, caps and rates, and sometimes another order or fewer targets.
func (h *budgetHistory) push() {
	addrs := storetest.Addrs(8)
	if h.rng.IntN(2) == 0 {
		h.rng.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	}
	if h.rng.IntN(2) == 0 {
		addrs = addrs[:1+h.rng.IntN(len(addrs))]
	}
	p := storetest.Even(addrs)
	for i := range p.Candidates {
		p.Candidates[i].Cap = int64(h.rng.IntN(6))
		l := budget.Limits{Weight: 0.1 + 10*h.rng.Float64()}
		if h.rng.IntN(4) > 0 {
			l.Tokens = []float64{100, 1000, 7777.7, 60_000}[h.rng.IntN(4)]
		}
		if h.rng.IntN(3) == 0 {
			l.Requests = []float64{0.5, 3, 60, 1000}[h.rng.IntN(4)]
		}
		p.Budget.Limits = append(p.Budget.Limits, l)
	}
	if h.plans = append(h.plans, p); len(h.plans) > 4 {
		h.plans = h.plans[1:]
	}
}

func (h *budgetHistory) step() {
	h.seed()
	o := h.owners[h.rng.IntN(len(h.owners))]
	switch n := h.rng.IntN(100); {
	case n < 50:
		h.reserve(o)
	case n < 72:
		h.release(o)
	case n < 80:
		h.settle(o)
	case n < 83:
		o.Restrict(h.now, h.scope, h.addr(), h.restriction())
	case n < 94:
		h.pass([]time.Duration{1, 7, 30, 300, 2000, 30_000, 61_000}[h.rng.IntN(7)] * time.Millisecond)
	default:
		h.disturb(o, n-94)
	}
}

func (h *budgetHistory) disturb(o *historyOwner, what int) {
	switch what {
	case 0:
		h.push()
	case 1:
		o.conn.percent = []int{0, 0, 5, 30, 100}[h.rng.IntN(5)]
	case 2:
		h.model.count["clock step"]++
		steps := []time.Duration{-time.Hour, -time.Second, -999 * time.Millisecond, 10 * time.Minute}
		h.model.pass(steps[h.rng.IntN(len(steps))])
	case 3:
		h.owners = slices.DeleteFunc(h.owners, func(other *historyOwner) bool { return other == o })
		h.join()
	case 4:
		switch h.rng.IntN(6) {
		case 0:
			h.model.root.value("FLUSHALL")
			h.model.forget()
			h.model.pass(0)
		case 1:
			keys := redisclient.KeysOf(h.scope)
			h.model.root.value("DEL", keys.Budget, keys.Tenants)
			h.model.loseBudgets()
		case 2:
			h.model.root.value("SCRIPT", "FLUSH")
		}
	}
}

// settle corrects what was charged for a lease, at any endpoint.
func (h *budgetHistory) settle(o *historyOwner) {
	if of := sortedIDs(o.held); len(of) > 0 {
		o.Settle(h.now, of[h.rng.IntN(len(of))], h.addr(),
			h.rng.Int64N(1<<(1+h.rng.IntN(23)))-h.rng.Int64N(1<<(1+h.rng.IntN(23))), int64(h.rng.IntN(3)-1))
	}
}

func (h *budgetHistory) addr() string { return storetest.Addrs(9)[h.rng.IntN(9)] }

func (h *budgetHistory) restriction() budget.Restriction {
	r := budget.Restriction{Tokens: -1, Requests: -1}
	if h.rng.IntN(2) == 0 {
		r.Tokens = float64(h.rng.IntN(3) * h.rng.IntN(2000))
		r.TokensReset = time.Duration(h.rng.IntN(9000)) * time.Millisecond
	}
	if h.rng.IntN(2) == 0 {
		r.Requests, r.RequestsReset = float64(h.rng.IntN(4)), time.Duration(h.rng.IntN(90))*time.Second
	}
	if h.rng.IntN(3) == 0 {
		r.RetryAfter = time.Duration(h.rng.IntN(5_000_000)) * time.Millisecond
		r.MaxClosed = time.Duration(h.rng.IntN(3)) * 20 * time.Second
	}
	r.Reopen = h.rng.IntN(8) == 0
	return r
}

// reserve reserves by one of the configurations.
func (h *budgetHistory) reserve(o *historyOwner) {
	h.next++
	id, p := h.next, *h.plans[h.rng.IntN(len(h.plans))]
	p.Budget.Tokens = h.rng.Int64N(1 << (1 + h.rng.IntN(13)))
	p.Scope = h.scope
	if lb.IsOfTenants(h.scope) {
		i := h.rng.IntN(len(p.Candidates))
		p.Candidates, p.Budget.Limits = p.Candidates[i:i+1], p.Budget.Limits[i:i+1]
	}
	o.pending[id] = true
	o.Reserve(h.now, id, &p, func(g lb.Grant, err error) {
		delete(o.pending, id)
		if err == nil {
			o.held[id] = heldLease{h.scope, p.Candidates[g.Index].Addr, p.AddedTokens(0)}
		} else if errors.Is(err, lb.ErrOverBudget) && g.Expected < 0 {
			h.rt.Fatalf("refused, to be placed in %v", g.Expected)
		}
	})
}

// release releases a lease, sometimes twice, or one whose reservation has no answer yet.
func (h *budgetHistory) release(o *historyOwner) {
	of := sortedIDs(o.held)
	if len(of) == 0 || h.rng.IntN(8) == 0 {
		of = sortedIDs(o.pending)
	}
	if len(of) == 0 {
		return
	}
	id := of[h.rng.IntN(len(of))]
	for range 1 + h.rng.IntN(2) {
		o.Release(h.now, id)
	}
	delete(o.held, id)
}

// pass lets time pass: deadlines expire, delayed things happen, and every owner sends a heartbeat each second.
func (h *budgetHistory) pass(d time.Duration) {
	h.now += d
	h.model.pass(d)
	for _, o := range h.owners {
		o.conn.step(h.now)
		o.Expire(h.now)
	}
	if h.now-h.since >= time.Second {
		h.since = h.now
		for _, o := range h.owners {
			_ = o.Heartbeat(h.now)
		}
	}
}

// end ends all faults and releases everything: no slot may be left. All owners use the scope before, since an owner
// that has not for a minute sends no heartbeat for it, and returns nothing of the dead.
func (h *budgetHistory) end() {
	for _, o := range h.owners {
		o.conn.heal(h.now)
	}
	h.pass(time.Second) // breakers close
	for _, o := range h.owners {
		h.reserve(o)
	}
	for range int(storetest.TTL/time.Second) + 2 {
		h.pass(time.Second)
	}
	for _, o := range h.owners {
		if len(o.pending) > 0 {
			h.rt.Fatalf("%d reservations were never answered", len(o.pending))
		}
		for _, id := range sortedIDs(o.held) {
			o.Release(h.now, id)
		}
	}
	for range 2 {
		h.pass(time.Second)
	}
	if loads := nonZero(h.model.root.loads(h.scope)); len(loads) > 0 {
		h.rt.Fatalf("nothing is in flight, but the totals are %v", loads)
	}
}

// budgetHistories runs random histories on each version, and logs what has happened in them.
func budgetHistories(t *testing.T, n int, run func(*rapid.T, *redisserver.Server, map[string]int)) {
	t.Helper()
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			histories(t, version, n)
			t.Cleanup(redisclient.SetClock())
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			count := map[string]int{}
			rapid.Check(t, func(rt *rapid.T) { run(rt, server, count) })
			t.Logf("in all histories: %v", count)
		})
	}
}

// What the scripts do with budgets is what package budget does, to the last bit, whatever is lost, late or doubled.
// On all versions together there are more than 100,000 operations on budgets.
func TestBudgetsAreThoseOfTheRule(t *testing.T) { followRule(t, "llm", 180) }

// So are the budgets of tenants.
func TestBudgetsOfTenantsAreThoseOfTheRule(t *testing.T) { followRule(t, "tenants/llm", 40) }

func followRule(t *testing.T, scope string, n int) {
	t.Helper()
	storetest.SetRapid(t, "steps", "600")
	budgetHistories(t, n, func(rt *rapid.T, server *redisserver.Server, count map[string]int) {
		h := newBudgetHistory(rt, server, count, scope)
		for range 3 {
			h.join()
		}
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { h.step() }})
		h.end()
	})
}
