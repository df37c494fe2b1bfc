package redisclient_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/warmgate/warmgate/e2e/redisserver"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/memstore"
	"github.com/warmgate/warmgate/lb/storetest"
	"github.com/warmgate/warmgate/redisclient"
)

// outages is a random history of gateways that lose Redis and get it back, and an account of what that has charged. No
// command runs twice in it.
type outages struct {
	*budgetHistory
	gateways []*budgetGateway
	used     int64                        // makes amounts differ
	of       map[*byte]*chargedLease      // of each correction that was sent, by where its command is in memory
	settling *chargedLease                // by the present call
	charged  map[lb.LeaseID]*chargedLease // that Redis has charged
	account  map[string]float64           // what of each endpoint was charged and not given back, in buckets: see book
	largest  float64
}

// budgetGateway is a gateway, and what it was granted.
type budgetGateway struct {
	*historyOwner
	fallback *lb.FallbackStore
	remote   *adopter
	local    *memstore.Store
	leases   map[lb.LeaseID]*chargedLease
}

// adopter notes what a store in Redis adopts.
type adopter struct {
	*redisclient.Store
	adopted map[lb.LeaseID]bool // by the ids that the gateway has
}

func (a *adopter) Adopt(now time.Duration, id lb.LeaseID, scope, addr string, tokens int64) {
	a.adopted[id&^(1<<63)] = true
	a.Store.Adopt(now, id, scope, addr, tokens)
}

// chargedLease is a lease, and what it was charged as far as its gateway knows.
type chargedLease struct {
	addr    string
	tokens  int64
	adopted bool               // it was granted without Redis
	inRedis map[string]float64 // tokens by endpoint
	void    bool               // the budgets that were charged are lost
}

func newOutages(rt *rapid.T, server *redisserver.Server, count map[string]int) *outages {
	o := &outages{budgetHistory: newBudgetHistory(rt, server, count, "llm")}
	o.of, o.charged, o.account = map[*byte]*chargedLease{}, map[lb.LeaseID]*chargedLease{}, map[string]float64{}
	for range 3 {
		o.join()
		g := &budgetGateway{historyOwner: o.owners[len(o.owners)-1], leases: map[lb.LeaseID]*chargedLease{}}
		g.conn.kinds = slices.DeleteFunc(slices.Clone(faults), func(kind string) bool {
			return strings.HasPrefix(kind, "run ")
		})
		g.conn.sent = o.sent
		g.conn.conn.ran = func(command, answer []byte) { o.ran(g, command, answer) }
		kv := newMemory()
		if err := memstore.Prepare(kv); err != nil {
			rt.Fatal(err)
		}
		g.local = memstore.New(kv, o.names, storetest.TTL)
		g.remote = &adopter{g.Store, map[lb.LeaseID]bool{}}
		g.fallback = lb.NewFallbackStore(g.remote, g.local)
		o.gateways = append(o.gateways, g)
	}
	return o
}

// ran audits a command that the server has run.
func (o *outages) ran(g *budgetGateway, command, answer []byte) {
	cmd, _, _ := redisclient.Parse(command)
	reply, _, _ := redisclient.Parse(answer)
	before := maps.Clone(o.model.leases[redisclient.KeysOf("llm").Leases+g.name])
	o.model.ran(command, answer)
	switch redisclient.ScriptOf(cmd) {
	case "spend", "refund":
		id := string(cmd.Items[7].Str)
		was, is := before[id], o.model.leases[redisclient.KeysOf("llm").Leases+g.name][id]
		if was.addr == "" && is.addr != "" {
			o.change(o.lease(id), is.addr, float64(is.tokens))
		} else if was.addr != "" && is.addr == "" && reply.Int == 1 {
			if l := o.lease(id); !l.void {
				o.change(l, was.addr, -float64(was.tokens))
			}
		}
	case "settle":
		if reply.Kind == redisclient.Integer && reply.Int == 1 {
			o.settled(o.of[&command[0]], cmd.Items)
		}
	}
	o.check()
}

// lease returns the account of the lease with an id as Redis has it.
func (o *outages) lease(raw string) *chargedLease {
	var id lb.LeaseID
	for i := range raw {
		id |= lb.LeaseID(raw[i]) << (8 * i)
	}
	if o.charged[id] == nil {
		o.charged[id] = &chargedLease{inRedis: map[string]float64{}}
	}
	return o.charged[id]
}

// change notes what Redis has charged for a lease, or given back.
func (o *outages) change(l *chargedLease, addr string, tokens float64) {
	l.inRedis[addr] += tokens
	o.book(addr, tokens)
}

// book notes tokens in the account of an endpoint as a part of its bucket, which stays as full as it was when it gets
// another rate.
func (o *outages) book(addr string, tokens float64) {
	if rate := o.model.states[addr].TokenRate; rate > 0 {
		o.account[addr] = max(0, o.account[addr]+tokens/rate)
	}
}

// sent notes whose a correction is.
func (o *outages) sent(command []byte) {
	cmd, _, _ := redisclient.Parse(command)
	if redisclient.ScriptOf(cmd) == "settle" && o.settling != nil {
		o.of[&command[0]] = o.settling
	}
}

// settled notes a correction, which must be that of a lease that Redis has charged so much.
func (o *outages) settled(l *chargedLease, items []redisclient.Value) {
	addr, text := string(items[4].Str), fmt.Sprintf("%s %s %s", items[4].Str, items[5].Str, items[6].Str)
	tokens, err := strconv.ParseFloat(string(items[5].Str), 64)
	switch {
	case err != nil:
		o.rt.Fatal(err)
	case l == nil:
		o.rt.Fatalf("%s for no lease", text)
	case l.adopted:
		o.rt.Fatalf("%s for a lease that was granted without Redis", text)
	case l.void: // it may take from what others were charged since
		o.book(addr, max(0, tokens))
	case l.inRedis[addr]+tokens < 0:
		o.rt.Fatalf("%s for a lease that was charged %v", text, l.inRedis)
	default:
		o.change(l, addr, tokens)
	}
}

// check checks that the budgets in Redis are within their bounds, and lack no more than what was charged there.
func (o *outages) check() {
	for addr, s := range o.model.states {
		charged := o.account[addr] * s.TokenRate
		if s.MissingTokens < 0 || s.MissingRequests < 0 || s.MissingTokens > charged+1e-6 {
			o.rt.Fatalf("%s lacks %v tokens of %v that it was charged; %+v", addr, s.MissingTokens, charged, s)
		}
		if math.Abs(s.Deficit) > 1<<22+o.largest {
			o.rt.Fatalf("%s has a deficit of %v", addr, s.Deficit)
		}
	}
}

func (o *outages) step() {
	o.seed()
	g := o.gateways[o.rng.IntN(len(o.gateways))]
	switch n := o.rng.IntN(100); {
	case n < 45:
		o.ask(g)
	case n < 75:
		o.correct(g)
	case n < 90:
		o.wait([]time.Duration{1, 7, 30, 300, 1000, 2000}[o.rng.IntN(6)] * time.Millisecond)
	case n < 93:
		o.push()
	case n < 98:
		g.conn.percent = []int{0, 0, 10, 100, 100}[o.rng.IntN(5)]
	default:
		o.lose()
	}
}

// lose has Redis lose the budgets.
func (o *outages) lose() {
	o.model.root.value("DEL", redisclient.KeysOf("llm").Budget)
	o.model.loseBudgets()
	o.model.count["lost budgets"]++
	for _, l := range o.charged {
		l.void = true
	}
	clear(o.account)
}

// wait lets time pass.
func (o *outages) wait(d time.Duration) {
	o.pass(d)
	for _, g := range o.gateways {
		_ = g.local.Heartbeat(o.now)
	}
}

// amount returns a number of tokens that no lease was charged before.
func (o *outages) amount() int64 {
	o.used += 1 + o.rng.Int64N(9)
	o.largest = float64(o.used)
	return o.used
}

// ask reserves for a request.
func (o *outages) ask(g *budgetGateway) {
	o.next++
	id, p := o.next, *o.plans[o.rng.IntN(len(o.plans))]
	p.Budget.Tokens = o.amount()
	g.fallback.Reserve(o.now, id, &p, func(grant lb.Grant, err error) {
		if err != nil {
			return
		}
		adopted, l := g.remote.adopted[id], &chargedLease{adopted: true}
		if !adopted {
			l = o.charged[id]
		}
		l.addr, l.tokens = p.Candidates[grant.Index].Addr, p.Budget.Tokens
		g.leases[id] = l
		o.model.count[map[bool]string{true: "adopted", false: "charged"}[adopted]]++
	})
}

// correct settles a lease by what was used, moves its charge, gives it back, or ends it, as the plugin does.
func (o *outages) correct(g *budgetGateway) {
	of := sortedIDs(g.leases)
	if len(of) == 0 {
		return
	}
	id := of[o.rng.IntN(len(of))]
	l := g.leases[id]
	switch o.rng.IntN(4) {
	case 0:
		o.settle(g, id, l, o.amount()/int64(1+o.rng.IntN(50))-l.tokens, 0)
	case 1:
		o.settle(g, id, l, -l.tokens, -1)
		l.addr, l.tokens = o.addr(), o.amount()
		o.settle(g, id, l, 0, 1)
	case 2:
		o.settle(g, id, l, -l.tokens, -1)
		fallthrough
	default:
		g.fallback.Release(o.now, id)
		delete(g.leases, id)
	}
}

// settle makes a correction. With one more request the lease's tokens are charged.
func (o *outages) settle(g *budgetGateway, id lb.LeaseID, l *chargedLease, tokens, requests int64) {
	if requests <= 0 {
		l.tokens += tokens
	} else {
		tokens = l.tokens
	}
	o.model.count["corrections"]++
	o.settling = l
	g.fallback.Settle(o.now, id, l.addr, tokens, requests)
	o.settling = nil
}

// Whatever is lost or late, and however often gateways go on without Redis, its budgets are corrected only by what it
// has charged itself.
func TestBudgetsDuringOutages(t *testing.T) {
	storetest.SetRapid(t, "steps", "500")
	budgetHistories(t, 40, func(rt *rapid.T, server *redisserver.Server, count map[string]int) {
		o := newOutages(rt, server, count)
		rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { o.step() }})
		for _, g := range o.gateways {
			g.conn.heal(o.now)
		}
		o.wait(time.Second)
		for _, g := range o.gateways {
			for _, id := range sortedIDs(g.leases) {
				g.fallback.Release(o.now, id)
			}
		}
		for range int(storetest.TTL/time.Second) + 2 {
			o.wait(time.Second)
		}
		if loads := nonZero(o.model.root.loads("llm")); len(loads) > 0 {
			rt.Fatalf("nothing is in flight, but the totals are %v", loads)
		}
	})
}
