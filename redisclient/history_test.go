package redisclient_test

import (
	"errors"
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

// TestHistories runs random histories of several owners over faulty connections, while Redis loses keys, scripts or all
// data, and owners crash. At any time the totals are the sum of the leases in Redis, unless single keys were lost. When
// the faults have ended for a TTL and two seconds, both are what the owners hold. A failing history is reduced to few
// steps.
func TestHistories(t *testing.T) {
	storetest.SetRapid(t, "steps", "400")
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			histories(t, version, 50)
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			count := map[string]int{}
			rapid.Check(t, func(rt *rapid.T) {
				h := newHistory(rt, server, count)
				rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { h.step() }})
				h.calm()
				h.drain()
			})
			t.Logf("in all histories: %v", count)
		})
	}
}

// history is a random history of several owners on one server.
type history struct {
	rt           *rapid.T
	server       *redisserver.Server
	root         *syncTransport // for audits, and to lose data
	kv           *memory
	owners       []*historyOwner
	lastOwner    uint64
	next         lb.LeaseID
	now          time.Duration
	heartbeatsAt time.Duration // of the last heartbeats
	addrs        []string
	keysLost     bool           // single keys were lost since the last calm
	count        map[string]int // what happened how often, in all histories
}

// historyOwner is one owner and what it holds.
type historyOwner struct {
	*redisclient.Store
	name    string
	conn    *faultyTransport
	pending map[lb.LeaseID]bool // reservations without an answer; false once the lease was released
	held    map[lb.LeaseID]heldLease
}

// heldLease is what a lease counts for.
type heldLease struct {
	scope, addr string
	tokens      int64
}

var historyScopes = []string{"llm", "llm", "llm", "other"}

// historyActions are the steps of a history. The more often one is listed, the likelier it is.
var historyActions = slices.Concat(
	slices.Repeat([]string{"reserve", "release"}, 20),
	slices.Repeat([]string{"pass time"}, 6), slices.Repeat([]string{"amend"}, 4), slices.Repeat([]string{"audit"}, 3),
	[]string{"release pending", "release pending", "release before reserving", "change faults"},
	[]string{"crash", "lose data", "calm", "reserve", "reserve", "reserve"},
)

func newHistory(rt *rapid.T, s *redisserver.Server, count map[string]int) *history {
	h := &history{
		rt: rt, server: s, root: dial(rt, s), kv: newMemory(), now: time.Hour, addrs: storetest.Addrs(12), count: count,
	}
	h.root.value("FLUSHALL")
	for range 4 {
		h.join()
	}
	return h
}

// draw returns a random number below n.
func (h *history) draw(label string, n int) int { return rapid.IntRange(0, n-1).Draw(h.rt, label) }

func (h *history) join() {
	h.lastOwner++
	f := &faultyTransport{conn: dial(h.rt, h.server), rt: h.rt, percent: h.draw("percent of faults", 11)}
	h.owners = append(h.owners, &historyOwner{
		Store: redisclient.New(f, redisclient.Options{
			Owner: h.lastOwner, TTL: storetest.TTL, Timeout: 20 * time.Millisecond, KV: h.kv,
		}),
		name: strconv.FormatUint(h.lastOwner, 16), conn: f,
		pending: map[lb.LeaseID]bool{}, held: map[lb.LeaseID]heldLease{},
	})
}

func (h *history) step() {
	o := h.owners[h.draw("owner", len(h.owners))]
	action := rapid.SampledFrom(historyActions).Draw(h.rt, "action")
	h.count[action]++
	switch action {
	case "reserve":
		h.next++
		h.reserve(o, h.next, nil)
	case "release":
		h.release(o)
	case "amend":
		h.amend(o)
	case "release pending":
		h.releasePending()
	case "release before reserving":
		h.next++
		o.Release(h.now, h.next)
		h.reserve(o, h.next, lb.ErrReleased)
	default:
		h.disturb(o, action)
	}
}

// disturb does what no request does.
func (h *history) disturb(o *historyOwner, action string) {
	switch action {
	case "pass time":
		ms := rapid.SampledFrom([]int{5, 20, 50, 300, 1000}).Draw(h.rt, "ms")
		h.pass(time.Duration(ms) * time.Millisecond)
	case "change faults":
		o.conn.percent = rapid.SampledFrom([]int{0, 5, 30, 100}).Draw(h.rt, "percent of faults")
	case "crash":
		h.owners = slices.DeleteFunc(h.owners, func(other *historyOwner) bool { return other == o })
		h.join()
	case "lose data":
		h.loseData()
	case "audit":
		if !h.keysLost {
			h.auditSums()
		}
	case "calm":
		h.calm()
	}
}

// plan draws a plan over a part of the endpoints, as different views and health would.
func (h *history) plan() *lb.Plan {
	from := h.draw("first endpoint", 6)
	p := storetest.Even(h.addrs[from : from+2+h.draw("more endpoints", 5)])
	p.Scope = rapid.SampledFrom(historyScopes).Draw(h.rt, "scope")
	if h.draw("with a prompt", 2) == 1 {
		credit := float64(h.draw("credit", 100)) / 100
		p = storetest.WithPrompt(p, credit, storetest.Blocks(1, uint64(h.draw("block", 2)), uint64(h.draw("block", 2))))
	}
	p.Unit, p.Tokens = lb.Unit(h.draw("unit", 2)), int64(h.draw("tokens", 3000))
	p.Random = rapid.Uint64().Draw(h.rt, "tie")
	if h.draw("may wait", 2) == 1 {
		h.limit(p)
	}
	if h.draw("with budgets", 3) == 2 {
		p.Prefix = lb.Prefix{}
		p.Budget = lb.Budget{Tokens: p.Tokens, AgeBonus: float64(100 * h.draw("age bonus", 2))}
		for range p.Candidates {
			l := budget.Limits{Weight: 1 + float64(h.draw("weight", 3)), Tokens: 30_000}
			p.Budget.Limits = append(p.Budget.Limits, l)
		}
	}
	return p
}

// limit gives the plan low caps, and has the request wait for a while.
func (h *history) limit(p *lb.Plan) {
	p.Candidates = slices.Clone(p.Candidates)
	for i := range p.Candidates {
		p.Candidates[i].Cap = 2
	}
	p.Wait = lb.Wait{
		Max: time.Duration(1+h.draw("max", 60)) * 100 * time.Millisecond, Length: 20, Aging: time.Second, Skip: 3,
		Class: pairClasses[h.draw("class", 3)], Tenant: uint64(h.draw("tenant", 3)), Patience: 50 * time.Millisecond,
	}
}

// reserve reserves by a random plan. want is the error that must come of it, nil if the reservation may be granted or
// fail.
func (h *history) reserve(o *historyOwner, id lb.LeaseID, want error) {
	p := h.plan()
	o.pending[id] = true
	calls := 0
	o.Reserve(h.now, id, p, func(g lb.Grant, err error) {
		if calls++; calls > 1 {
			h.rt.Fatalf("reservation %d was answered twice", id)
		}
		waited := o.pending[id]
		delete(o.pending, id)
		if g.Queued {
			h.count["waited"]++
		}
		if want != nil && !errors.Is(err, want) || !waited && !errors.Is(err, lb.ErrReleased) {
			h.rt.Fatalf("reservation %d after its release: %v", id, err)
		}
		if err != nil {
			h.count["refused"]++
			return
		}
		h.count["granted"]++
		o.held[id] = heldLease{p.Scope, p.Candidates[g.Index].Addr, p.AddedTokens(g.Cached)}
		if h.draw("forget the prompt", 20) == 19 {
			o.ForgetPrompt(h.now, id, p, p.Candidates[g.Index].Addr, h.draw("blocks to keep", 12))
		}
	})
}

// release releases a lease, sometimes twice.
func (h *history) release(o *historyOwner) {
	if len(o.held) == 0 {
		return
	}
	id := sortedIDs(o.held)[0]
	for range 1 + h.draw("again", 2) {
		o.Release(h.now, id)
	}
	delete(o.held, id)
}

// releasePending releases a lease of any owner whose reservation has no answer yet, if there is one.
func (h *history) releasePending() {
	for _, o := range h.owners {
		for _, id := range sortedIDs(o.pending) {
			if o.pending[id] {
				o.pending[id] = false
				if o.Waits(id) {
					delete(o.pending, id) // it is not answered
				}
				o.Release(h.now, id)
				h.count["released while pending"]++
				return
			}
		}
	}
}

// amend changes the tokens of a lease, and sometimes its endpoint.
func (h *history) amend(o *historyOwner) {
	ids := sortedIDs(o.held)
	if len(ids) == 0 {
		return
	}
	id := ids[h.draw("lease", len(ids))]
	l := o.held[id]
	to := ""
	if h.draw("other endpoint", 2) == 1 {
		to = h.addrs[h.draw("endpoint", len(h.addrs))]
		l.addr = to
	}
	l.tokens = int64(h.draw("tokens", 3000))
	o.Amend(h.now, id, to, l.tokens)
	o.held[id] = l
}

// sortedIDs returns the keys in order, so that a history can be repeated.
func sortedIDs[V any](m map[lb.LeaseID]V) []lb.LeaseID {
	ids := make([]lb.LeaseID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// pass lets time pass: deadlines expire, delayed things happen, and once a second every owner sends its heartbeats.
func (h *history) pass(d time.Duration) {
	h.now += d
	for _, o := range h.owners {
		o.conn.step(h.now)
		o.Expire(h.now)
		o.Poll(h.now)
	}
	since := h.now - h.heartbeatsAt
	if since < time.Second {
		return
	}
	h.heartbeatsAt = h.now
	(&backend{conn: h.root}).Pass(min(since, time.Second))
	for _, o := range h.owners {
		if err := o.Heartbeat(h.now); err != nil {
			h.rt.Fatal(err)
		}
	}
}

// loseData has Redis lose a key, its scripts or all data.
func (h *history) loseData() {
	losses := []string{"nothing", "a key", "scripts", "a key", "scripts", "all data"}
	lost := rapid.SampledFrom(losses).Draw(h.rt, "lost")
	h.count["lost "+lost]++
	switch lost {
	case "all data":
		h.root.value("FLUSHALL")
	case "scripts":
		h.root.value("SCRIPT", "FLUSH")
	case "a key":
		if keys := h.keys(); len(keys) > 0 {
			h.root.value("DEL", rapid.SampledFrom(keys).Draw(h.rt, "key"))
			h.keysLost = true
		}
	}
}

func (h *history) keys() (keys []string) {
	for _, key := range h.root.value("KEYS", "*").Items {
		keys = append(keys, string(key.Str))
	}
	slices.Sort(keys)
	return keys
}

// calm ends all faults, lets a TTL and two seconds pass, and audits what the owners hold.
func (h *history) calm() {
	for _, o := range h.owners {
		o.conn.heal(h.now)
	}
	for s := range int((storetest.TTL + 2*time.Second) / time.Second) {
		h.pass(time.Second)
		switch s {
		case 0:
			h.useScopes()
		case 3:
			h.auditWaiting()
		}
	}
	h.keysLost = false
	for _, o := range h.owners {
		if len(o.pending) > 0 {
			h.rt.Fatalf("%d reservations were never answered", len(o.pending))
		}
		if !o.Ready(h.now) {
			h.rt.Fatal("the breaker is still open")
		}
		o.conn.percent = h.draw("percent of faults", 11)
	}
	h.auditHeld()
	h.auditWaiting()
}

// useScopes has one owner use each scope, since owners return leases only in scopes that they use.
func (h *history) useScopes() {
	for _, scope := range []string{"llm", "other"} {
		h.next++
		o, p := h.owners[0], storetest.Even(h.addrs)
		p.Scope = scope
		o.Reserve(h.now, h.next, p, func(_ lb.Grant, err error) {
			if err != nil {
				h.rt.Fatalf("reservation %d after the faults have ended: %v", h.next, err)
			}
		})
		o.Release(h.now, h.next)
	}
}

// drain releases all leases: nothing may remain, and all keys must expire.
func (h *history) drain() {
	for _, o := range h.owners {
		for _, id := range sortedIDs(o.held) {
			o.Release(h.now, id)
		}
		clear(o.held)
	}
	h.calm()
	for _, key := range h.keys() {
		if h.root.value("PTTL", key).Int == -1 { // -2 has expired meanwhile
			h.rt.Fatalf("%s lives for ever", key)
		}
	}
}
