package redisclient_test

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warmgate/warmgate/internal/wire"
	"github.com/warmgate/warmgate/lb"
	"github.com/warmgate/warmgate/lb/budget"
	"github.com/warmgate/warmgate/redisclient"
)

// budgetModel is what the scripts of budgets must do, by package budget. It sees each command that a server has run,
// and expects its reply, and the budgets that are in the server afterwards.
type budgetModel struct {
	t     tb
	root  *syncTransport
	scope string
	now   time.Duration // of the server's clock

	lists  map[string]*budgetList
	leases map[string]map[string]budgetLease // by key of the owner and id
	states map[string]budget.State           // by address
	last   string                            // that took the latest request
	epoch  string                            // of the leases

	count map[string]int // commands by script, and what came of them
}

// budgetList is a list of candidates.
type budgetList struct {
	addrs  []string
	limits []budget.Limits
	caps   []float64 // in requests
}

// budgetLease is an entry of an owner's hash.
type budgetLease struct {
	addr      string
	tokens    int64
	tombstone bool
}

func newBudgetModel(t tb, root *syncTransport, scope string) *budgetModel {
	m := &budgetModel{t: t, root: root, scope: scope, now: 1000 * time.Hour, count: map[string]int{}}
	m.forget()
	m.pass(0)
	return m
}

// forget forgets all that was in the server.
func (m *budgetModel) forget() {
	m.lists, m.leases = map[string]*budgetList{}, map[string]map[string]budgetLease{}
	m.loseBudgets()
}

// loseBudgets forgets the budgets.
func (m *budgetModel) loseBudgets() { m.states, m.last = map[string]budget.State{}, "" }

// pass moves the server's clock, also back.
func (m *budgetModel) pass(d time.Duration) {
	m.now += d
	m.root.setClock(m.now, d)
}

// ms returns the time as the scripts have it.
func (m *budgetModel) ms() float64 { return float64(m.now / time.Millisecond) }

// ran is called for each command that the server has run.
func (m *budgetModel) ran(command, answer []byte) {
	cmd, _, _ := redisclient.Parse(command)
	reply, _, _ := redisclient.Parse(answer)
	name := redisclient.ScriptOf(cmd)
	if name == "" {
		return
	}
	if reply.Kind == redisclient.ErrorReply {
		if !strings.HasPrefix(string(reply.Str), "NOSCRIPT") {
			m.t.Fatalf("%s: %s", name, reply.Str)
		}
		return
	}
	m.count[name]++
	keys, _ := strconv.Atoi(string(cmd.Items[2].Str))
	var k, a []string
	for i, item := range cmd.Items[3:] {
		if i < keys {
			k = append(k, string(item.Str))
		} else {
			a = append(a, string(item.Str))
		}
	}
	switch name {
	case "spend":
		m.spend(k, a, reply)
	case "refund":
		m.refund(k[1], a[0], reply)
	case "spend_tenant":
		m.spendTenant(k[3], a, reply)
	case "refund_tenant":
		m.refund(k[3], a[1], reply)
	case "settle", "restrict", "settle_tenant", "restrict_tenant":
		m.correct(name, a, reply)
	case "release":
		m.release(k[1], a[0], a[2:])
	case "candidates":
		m.list(k, a)
		m.readLeases()
	default:
		m.readLeases()
	}
	m.compare(name)
}

// list notes a list of candidates.
func (m *budgetModel) list(k, a []string) {
	l := &budgetList{addrs: a[7:]}
	limits := wire.NewReader([]byte(a[6]))
	for range l.addrs {
		l.limits = append(l.limits, budget.Limits{
			Weight: limits.Float64(), Tokens: limits.Float64(), Requests: limits.Float64(),
		})
		l.caps = append(l.caps, limits.Float64())
		limits.Float64()
	}
	m.lists[k[5]] = l
}

// readLeases reads the leases, which scripts may have changed whose effect is none on budgets.
func (m *budgetModel) readLeases() {
	keys := redisclient.KeysOf(m.scope)
	addrs := map[string]string{}
	for addr, row := range m.root.rows(m.scope) {
		addrs[strconv.Itoa(row)] = addr
	}
	epoch := m.readEpoch()
	m.leases = map[string]map[string]budgetLease{}
	for _, key := range m.root.value("KEYS", keys.Leases+"*").Items {
		held := map[string]budgetLease{}
		items := m.root.value("HGETALL", string(key.Str)).Items
		for i := 0; i < len(items); i += 2 {
			id, value := string(items[i].Str), items[i+1].Str
			switch _, row, tokens, ok := redisclient.ParseLease(id, value); {
			case ok:
				held[id] = budgetLease{addr: addrs[strconv.Itoa(row)], tokens: tokens}
			case len(id) == 8:
				held[id] = budgetLease{tombstone: true}
			case id == "b" && string(value) != epoch:
				held = nil
			}
			if held == nil {
				break
			}
		}
		m.leases[string(key.Str)] = held
	}
}

// readEpoch reads the epoch of the table.
func (m *budgetModel) readEpoch() string {
	m.epoch = string(m.root.value("GETRANGE", redisclient.KeysOf(m.scope).Table, "0", "7").Str)
	return m.epoch
}

// loads returns the sum of the leases.
func (m *budgetModel) loads() map[string]lb.Load {
	sums := map[string]lb.Load{}
	for _, held := range m.leases {
		for _, l := range held {
			if !l.tombstone {
				load := sums[l.addr]
				sums[l.addr] = lb.Load{Requests: load.Requests + 1, Tokens: load.Tokens + l.tokens}
			}
		}
	}
	return sums
}

// spend runs a reservation.
func (m *budgetModel) spend(k, a []string, reply redisclient.Value) {
	own, id, l := k[1], a[0], m.lists[k[2]]
	code := int64(0)
	if reply.Kind == redisclient.Array {
		code = reply.Items[0].Int
	}
	held, ok := m.leases[own][id]
	switch {
	case code == -3: // without the list, or without the owner
		m.count["unknown list"]++
	case ok && held.tombstone:
		delete(m.leases[own], id)
		if code != -2 {
			m.t.Fatalf("a reservation that was taken back is answered with %v", reply)
		}
	case ok:
		s := m.states[held.addr]
		s.Advance(m.ms())
		m.wantGrant(reply, slices.Index(l.addrs, held.addr), held.addr, s.Left())
	default:
		in := wire.NewReader([]byte(a[1]))
		m.place(own, id, l, in.Float64(), reply)
	}
}

// spendTenant runs a reservation at a tenant. It may have begun an epoch: then no lease is counted any more.
func (m *budgetModel) spendTenant(own string, a []string, reply redisclient.Value) {
	id, before := a[1], m.epoch
	held, ok := m.leases[own][id]
	isReleased := reply.Kind == redisclient.Array && reply.Items[0].Int == -2
	if m.readEpoch() != before {
		m.keepTombstones()
	}
	in := wire.NewReader([]byte(a[4]))
	tokens := in.Float64()
	l := &budgetList{addrs: a[:1], limits: []budget.Limits{
		{Weight: in.Float64(), Tokens: in.Float64(), Requests: in.Float64()},
	}, caps: []float64{in.Float64()}}
	switch {
	case ok && held.tombstone && (m.epoch == before || isReleased):
		delete(m.leases[own], id)
		if !isReleased {
			m.t.Fatalf("a reservation that was taken back is answered with %v", reply)
		}
	case ok && m.epoch == before:
		s := m.states[held.addr]
		s.Advance(m.ms())
		m.wantGrant(reply, 0, held.addr, s.Left())
	default:
		m.place(own, id, l, tokens, reply)
	}
}

// keepTombstones forgets what was counted in another epoch. A hash that has only tombstones belongs to none.
func (m *budgetModel) keepTombstones() {
	for own, held := range m.leases {
		maps.DeleteFunc(held, func(id string, l budgetLease) bool {
			return !l.tombstone || m.root.value("HEXISTS", own, id).Int == 0
		})
		if mark := m.root.value("HGET", own, "b"); mark.Kind == redisclient.Bulk && string(mark.Str) != m.epoch {
			delete(m.leases, own)
		}
	}
}

// place places a request by package budget.
func (m *budgetModel) place(own, id string, l *budgetList, tokens float64, reply redisclient.Value) {
	targets, after, loads, changed := make([]budget.Target, len(l.addrs)), -1, m.loads(), false
	for i, addr := range l.addrs {
		s := m.states[addr]
		isUnused := s.IsUnused(m.ms())
		changed = s.Apply(m.ms(), l.limits[i]) || changed
		full := l.caps[i] > 0 && float64(loads[addr].Requests) >= l.caps[i]
		targets[i] = budget.Target{Limits: l.limits[i], State: s, Full: full}
		if addr == m.last && !isUnused {
			after = i
		}
	}
	chosen := budget.Choose(targets, after, tokens)
	if chosen == budget.None {
		m.count["over budget"]++
		first := budget.Earliest(targets, tokens)
		left := targets[first].Left()
		want := wire.Writer(nil).Float64(math.Ceil(targets[first].Until(tokens))).Uint16(uint16(first)).
			Float64(left.Tokens).Float64(left.Requests)
		if len(reply.Items) != 2 || reply.Items[0].Int != -7 || string(reply.Items[1].Str) != string(want) {
			m.t.Fatalf("%v, want a refusal with %q; %+v", reply, want, targets)
		}
		if !changed {
			return
		}
	} else {
		m.count["granted"]++
		budget.Charge(targets, chosen, m.ms(), tokens)
		m.last = l.addrs[chosen]
		if m.leases[own] == nil {
			m.leases[own] = map[string]budgetLease{}
		}
		m.leases[own][id] = budgetLease{addr: m.last, tokens: int64(tokens)}
		m.wantGrant(reply, chosen, m.last, targets[chosen].Left())
	}
	for i, addr := range l.addrs {
		m.states[addr] = targets[i].State
	}
}

// wantGrant expects that the candidate with the index was granted.
func (m *budgetModel) wantGrant(reply redisclient.Value, index int, addr string, left budget.Left) {
	load := m.loads()[addr]
	want := wire.Writer(nil).Uint16(uint16(index)).Uint32(uint32(load.Requests)).Int64(load.Tokens).
		Float64(left.Tokens).Float64(left.Requests)
	if string(reply.Str) != string(want) {
		m.t.Fatalf("granted %q, want %q: candidate %d, %s with %+v", reply.Str, want, index, addr, load)
	}
}

// release releases leases, and leaves tombstones for those without a granted reservation.
func (m *budgetModel) release(own, granted string, ids []string) {
	for _, id := range ids {
		if l, ok := m.leases[own][id]; ok && (!l.tombstone || granted == "1") {
			delete(m.leases[own], id)
		} else if !ok && granted == "0" {
			if m.leases[own] == nil {
				m.leases[own] = map[string]budgetLease{}
			}
			m.leases[own][id] = budgetLease{tombstone: true}
		}
	}
}

// refund takes a reservation back.
func (m *budgetModel) refund(own, id string, reply redisclient.Value) {
	l, ok := m.leases[own][id]
	m.release(own, "0", []string{id})
	if !ok || l.tombstone {
		if reply.Int != 0 {
			m.t.Fatalf("a lease that is not held was released: %v", reply)
		}
		return
	}
	if reply.Int != 1 {
		m.t.Fatalf("the lease was not released: %v", reply)
	}
	if s, ok := m.states[l.addr]; ok {
		m.count["refunded"]++
		s.Refund(m.ms(), float64(l.tokens))
		m.states[l.addr] = s
	}
}

// correct settles or restricts.
func (m *budgetModel) correct(script string, a []string, reply redisclient.Value) {
	s, ok := m.states[a[0]]
	if ok != (reply.Int == 1) {
		m.t.Fatalf("%s is answered with %v, there is a state: %v", script, reply, ok)
	}
	if !ok {
		return
	}
	if strings.HasPrefix(script, "settle") {
		tokens, _ := strconv.Atoi(a[1])
		requests, _ := strconv.Atoi(a[2])
		s.Correct(m.ms(), float64(tokens), float64(requests))
	} else {
		in := wire.NewReader([]byte(a[1]))
		r := budget.Restriction{Tokens: in.Float64(), Requests: in.Float64()}
		for _, d := range []*time.Duration{&r.TokensReset, &r.RequestsReset, &r.RetryAfter} {
			*d = time.Duration(in.Float64()) * time.Millisecond
		}
		r.MaxClosed, r.Reopen = time.Duration(in.Float64())*time.Millisecond, in.Float64() == 1
		s.Restrict(m.ms(), &r)
	}
	m.states[a[0]] = s
}

// compare expects that the server has the same budgets, to the last bit.
func (m *budgetModel) compare(after string) {
	got, last := m.root.budgets(m.scope)
	if lb.IsOfTenants(m.scope) {
		got, last = m.root.tenants(m.scope), m.last
	}
	if !maps.Equal(got, m.states) || last != m.last {
		m.t.Fatalf("after %s at %v: the budgets are\n%+v, the latest is %q; want\n%+v, %q",
			after, m.now, got, last, m.states, m.last)
	}
}
