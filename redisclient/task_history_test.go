package redisclient_test

import (
	"encoding/binary"
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

// taskHistory is a random history of tasks of several gateways over faulty connections. What callers may rely
// on is checked after each step, by what Redis has and by what they were told.
type taskHistory struct {
	*clocked
	rt       *rapid.T
	rng      *rand.Rand // seeded for each step, so that a failing history is reduced to few steps
	gateways []*taskGateway
	names    uint64
	now      time.Duration // of the gateways, which no clock step changes
	since    time.Duration // of the last heartbeats
	known    []*callerTask
	count    map[string]int
}

// taskGateway is a gateway that is called for tasks.
type taskGateway struct {
	*redisclient.Store
	conn *faultyTransport
}

// callerTask is what a caller knows of a task that it was given.
type callerTask struct {
	lb.Task
	key   uint64
	until time.Duration // by the answers that have come, it lives so long at least
	over  bool          // the caller asked to end it or was told that it has ended, or Redis has lost it
}

const (
	historyTaskTTL   = 5 * time.Second
	historyTaskSlots = 3
)

func newTaskHistory(rt *rapid.T, c *clocked, count map[string]int) *taskHistory {
	h := &taskHistory{clocked: c, rt: rt, now: time.Hour, count: count}
	h.conn.value("FLUSHALL")
	h.Pass(0)
	h.seed()
	for range 3 {
		h.join()
	}
	return h
}

func (h *taskHistory) seed() { h.rng = rand.New(rand.NewPCG(rapid.Uint64().Draw(h.rt, "step"), 7)) }

func (h *taskHistory) join() {
	h.names++
	f := &faultyTransport{conn: dial(h.rt, h.server), rt: h.rt}
	h.gateways = append(h.gateways, &taskGateway{redisclient.New(f, redisclient.Options{
		Owner: h.names, TTL: storetest.TTL, Timeout: 20 * time.Millisecond, KV: newMemory(),
	}), f})
}

func (h *taskHistory) plan() *lb.Plan {
	p := storetest.Budgeted(storetest.Addrs(3), budget.Limits{Weight: 1, Tokens: 60_000}, 1+h.rng.Int64N(3000))
	for i := range p.Candidates {
		p.Candidates[i].Cap = historyTaskSlots
	}
	p.Budget.AgeBonus = float64(1000 * h.rng.IntN(2))
	p.Random = h.rng.Uint64()
	return p
}

func (h *taskHistory) step() {
	h.seed()
	g := h.gateways[h.rng.IntN(len(h.gateways))]
	switch n := h.rng.IntN(100); {
	case n < 35:
		h.schedule(g)
	case n < 55:
		h.complete(g)
	case n < 70:
		h.renew(g)
	case n < 92:
		h.pass([]time.Duration{1, 7, 30, 300, 1000, 2000}[h.rng.IntN(6)] * time.Millisecond)
	default:
		h.disturb(g, n)
	}
	h.audit()
}

func (h *taskHistory) disturb(g *taskGateway, n int) {
	switch {
	case n < 95:
		g.conn.percent = []int{0, 5, 30, 100}[h.rng.IntN(4)]
	case n < 97:
		h.count["killed"]++
		h.gateways = slices.DeleteFunc(h.gateways, func(other *taskGateway) bool { return other == g })
		h.join()
	case n < 98:
		h.count["clock step"]++
		h.heal()
		h.Pass([]time.Duration{-time.Hour, -time.Second, 10 * time.Minute}[h.rng.IntN(3)])
	default:
		h.lose()
	}
}

// lose has Redis lose something. What is not counted until the next heartbeat may let others exceed caps, so all tasks
// end before the history goes on.
func (h *taskHistory) lose() {
	h.heal()
	k := redisclient.KeysOf("llm")
	switch h.rng.IntN(4) {
	case 0:
		h.conn.value("SCRIPT", "FLUSH")
		return
	case 1:
		h.conn.value("FLUSHALL")
		h.Pass(0)
	default:
		h.conn.value("DEL", []string{k.Table, k.Tasks, k.Expiry, k.Budget}[h.rng.IntN(4)])
	}
	h.count["lost data"]++
	h.end()
}

// heal ends all faults, and forgets which tasks should live: that is not sure any more.
func (h *taskHistory) heal() {
	for _, g := range h.gateways {
		g.conn.heal(h.now)
	}
	for _, k := range h.known {
		k.over = true
	}
}

func (h *taskHistory) schedule(g *taskGateway) {
	key := uint64(0)
	if h.rng.IntN(3) > 0 {
		key = 1 + uint64(h.rng.IntN(12))
	}
	p, sent := h.plan(), h.now
	g.Schedule(h.now, key, historyTaskTTL, p, func(t lb.Task, err error) {
		if err != nil {
			h.count["not scheduled"]++
			return
		}
		h.count["scheduled"]++
		i := slices.IndexFunc(h.known, func(k *callerTask) bool { return k.ID == t.ID })
		if i < 0 {
			h.known = append(h.known, &callerTask{Task: t, key: key, until: sent + historyTaskTTL})
			return
		}
		k := h.known[i]
		if k.Grant.Index != t.Grant.Index || k.key != key || key == 0 {
			h.rt.Fatalf("key %d gave %+v again, of key %d, as %+v", key, k.Task, k.key, t)
		}
		h.count["given again"]++
		k.until = max(k.until, sent+historyTaskTTL)
	})
}

// one returns a task that a caller knows, of those that are over, too; an unknown one if there is none.
func (h *taskHistory) one() *callerTask {
	if len(h.known) == 0 {
		return &callerTask{over: true}
	}
	return h.known[max(0, len(h.known)-1-h.rng.IntN(12))]
}

func (h *taskHistory) complete(g *taskGateway) {
	k, was, sent := h.one(), false, h.now
	was, k.over = k.over, true
	g.Complete(h.now, "llm", k.ID, lb.TaskUse{Tokens: h.rng.Int64N(4000) - 1}, func(end lb.TaskEnd, err error) {
		if err == nil {
			h.count["completed "+strconv.Itoa(int(end))]++
		}
		if err == nil && !was && sent < k.until && h.now < k.until && end != lb.TaskCompleted && end != lb.TaskEnded {
			h.rt.Fatalf("a task that lives until %v was completed at %v as %v", k.until, h.now, end)
		}
	})
}

func (h *taskHistory) renew(g *taskGateway) {
	k, sent := h.one(), h.now
	g.Renew(h.now, "llm", k.ID, historyTaskTTL, func(found bool, err error) {
		if found && err == nil {
			k.until = max(k.until, sent+historyTaskTTL)
		}
		if err == nil && !found && !k.over && h.now < k.until {
			h.rt.Fatalf("a task that lives until %v is not there at %v", k.until, h.now)
		}
	})
}

// pass lets time pass: deadlines expire, delayed things happen, and every gateway sends a heartbeat each second.
func (h *taskHistory) pass(d time.Duration) {
	h.now += d
	h.Pass(d)
	for _, g := range h.gateways {
		g.conn.step(h.now)
		g.Expire(h.now)
	}
	if h.now-h.since < time.Second {
		return
	}
	h.since = h.now
	for _, g := range h.gateways {
		if err := g.Heartbeat(h.now); err != nil {
			h.rt.Fatal(err)
		}
	}
}

// audit checks that every target has what its tasks in Redis count for, and no more than its slots; and that every task
// is there that lives by what its caller was told.
func (h *taskHistory) audit() {
	tasks, sums := h.conn.tasks("llm"), map[string]lb.Load{}
	for _, t := range tasks {
		if t.counts {
			load := sums[t.addr]
			sums[t.addr] = lb.Load{Requests: load.Requests + 1, Tokens: load.Tokens + t.tokens}
		}
	}
	for addr, load := range nonZero(h.conn.loads("llm")) {
		if load != sums[addr] || load.Requests > historyTaskSlots {
			h.rt.Fatalf("%s has %+v in flight, its tasks are %+v, and it has %d slots", addr, load, sums[addr],
				historyTaskSlots)
		}
		delete(sums, addr)
	}
	if len(sums) > 0 {
		h.rt.Fatalf("tasks are not counted: %v", sums)
	}
	for _, k := range h.known {
		if t := tasks[k.ID]; !k.over && h.now < k.until && !t.counts {
			h.rt.Fatalf("the task %x should live until %v, and does not at %v: %+v", k.ID, k.until, h.now, t)
		}
	}
}

// end ends all faults. A second after the TTL nothing may be in flight any more.
func (h *taskHistory) end() {
	h.heal()
	for range 3 { // a breaker may be open; gateways count what is in scopes that they use
		h.pass(time.Second)
		h.schedule(h.gateways[0])
	}
	h.pass(historyTaskTTL)
	h.pass(time.Second)
	if loads := nonZero(h.conn.loads("llm")); len(loads) > 0 {
		h.rt.Fatalf("a second after the TTL there is in flight: %v", loads)
	}
	h.pass(historyTaskTTL)
	h.pass(time.Second)
	if n := h.conn.value("HLEN", redisclient.KeysOf("llm").Tasks).Int; n > 3 {
		h.rt.Fatalf("%d fields are left of tasks that have ended", n)
	}
	h.known = nil
}

// No slot of a task is lost or given twice, and no cap exceeded by one, whatever is lost, late or doubled, and whoever
// dies; and every task that nobody renews is given back within its TTL and a second.
func TestTasksOverFaultyConnections(t *testing.T) {
	storetest.SetRapid(t, "steps", "300")
	for _, version := range redisserver.Versions() {
		t.Run(version, func(t *testing.T) {
			histories(t, version, 60)
			server := redisserver.StartT(t, redisserver.Options{Version: version})
			open := openClocked(t, server, false, nil)
			count := map[string]int{}
			rapid.Check(t, func(rt *rapid.T) {
				h := newTaskHistory(rt, open(t).(*clocked), count)
				rt.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { h.step() }})
				h.end()
			})
			t.Logf("in all histories: %v", count)
		})
	}
}

// storedTask is a task in Redis.
type storedTask struct {
	addr   string
	tokens int64
	counts bool // it lives, and counts in the present epoch of the table
}

// tasks returns the tasks of a scope in Redis.
func (w *syncTransport) tasks(scope string) map[lb.TaskID]storedTask {
	k, tasks := redisclient.KeysOf(scope), map[lb.TaskID]storedTask{}
	table := w.value("GET", k.Table).Str
	items := w.value("HGETALL", k.Tasks).Items
	for i := 0; i+1 < len(items); i += 2 {
		id, v := items[i].Str, items[i+1].Str
		if len(id) != 16 || len(v) < 33 {
			continue
		}
		isCounted := v[0] == 0 && len(table) >= 8 && string(v[17:25]) == string(table[:8])
		tasks[lb.TaskID(id)] = storedTask{string(v[33:]), int64(binary.LittleEndian.Uint32(v[3:])), isCounted}
	}
	return tasks
}
